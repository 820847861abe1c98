"""The image pipeline: photograph → greyscale → Gaussian blur → Sobel edges → histogram, on the public interface of Gridstride alone.

`edges(image)` does it for one array; `gridstride pipeline` for files.
"""

from gridstride.pipeline.implementations import IMPLEMENTATIONS, EdgePipeline, edges
from gridstride.pipeline.parameters import Parameters
from gridstride.pipeline.results import EdgeResult, PipelineRun, StageRun

__all__ = ["IMPLEMENTATIONS", "EdgePipeline", "EdgeResult", "Parameters", "PipelineRun", "StageRun", "edges"]

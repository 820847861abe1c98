"""The image pipeline: photograph → greyscale → Gaussian blur → Sobel edges → histogram, on the public interface of Gridstride alone.

`edges(image)` does it for one array, `stream_edges(images, pipeline)` for many; `gridstride pipeline` for files.
"""

from gridstride.pipeline.differences import Difference, differences
from gridstride.pipeline.implementations import IMPLEMENTATIONS, EdgePipeline, edges
from gridstride.pipeline.parameters import Parameters
from gridstride.pipeline.results import DeviceEdges, EdgeResult, PipelineRun, StageRun
from gridstride.pipeline.streaming import stream_edges

__all__ = ["IMPLEMENTATIONS", "DeviceEdges", "Difference", "EdgePipeline", "EdgeResult", "Parameters", "PipelineRun", "StageRun", "differences", "edges", "stream_edges"]

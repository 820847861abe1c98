"""The image pipeline: photograph → greyscale → Gaussian blur → Sobel edges → histogram, on the public interface of Gridstride alone.

`edges(image)` does it for one array; `gridstride pipeline` for files.
"""

from gridstride.pipeline.stages import EdgePipeline, EdgeResult, PipelineRun, StageRun, edges

__all__ = ["EdgePipeline", "EdgeResult", "PipelineRun", "StageRun", "edges"]

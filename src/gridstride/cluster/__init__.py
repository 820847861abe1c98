"""Work spread over a Dask cluster: one of this machine's processes, started and ended here, or one that runs already.

    with opened(workers=4) as cluster:
        for job, result, lost in cluster.spread(function, jobs):
            …

What the work is, nobody here knows: `function` is one of an installed module, a job and its result are anything that can be pickled.
"""

from gridstride.cluster.connecting import opened
from gridstride.cluster.spreading import Cluster, ClusterError

__all__ = ["Cluster", "ClusterError", "opened"]

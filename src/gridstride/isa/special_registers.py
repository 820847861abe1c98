"""The special registers that a kernel can read (PTX ISA 10), and their width in bits."""

from __future__ import annotations

import re

SPECIAL_REGISTERS: dict[str, int] = {
    **{
        f"%{name}.{axis}": 32
        for name in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
        for axis in "xyz"
    },
    **{f"%lanemask_{name}": 32 for name in ("eq", "lt", "le", "gt", "ge")},
    **dict.fromkeys(("%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%clock", "%clock_hi", "%globaltimer_lo", "%globaltimer_hi"), 32),
    **dict.fromkeys(("%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size", "%envreg1", "%envreg2"), 32),
    **dict.fromkeys(("%cluster_ctarank", "%cluster_nctarank"), 32),
    **dict.fromkeys(("%gridid", "%clock64", "%globaltimer"), 64),
    "%is_explicit_cluster": 1,
}

_EXIST = re.compile(
    r"%(n?tid|n?ctaid|clusterid|nclusterid|cluster_n?ctaid)(\.\w+)?|%envreg\d+|%pm\d+(_64)?|%reserved_smem_\w+|%current_graph_exec"
)


def exists(name: str) -> bool:
    """Whether PTX has a special register of this name, whether or not it is among those that can be read here."""
    return name in SPECIAL_REGISTERS or _EXIST.fullmatch(name) is not None

"""Where in the user's own source a piece of PTX stands: headers of the toolkit are looked through."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gridstride.ptx.nodes import SourceLocation

# The toolkit's own headers, by path or by name: a shuffle or an atomic is a function there, inlined into the user's line.
_TOOLKIT = re.compile(
    r"(^|/)(nvrtc-headers[^/]*|gridstride/frontends/headers|gridstride/include/gridstride|crt|cuda/std|cuda/__\w+|cub|thrust|nv|cooperative_groups)/"
    r"|(^|/)(sm_\d+_\w+|device_atomic_functions|device_functions|device_double_functions|math_functions|cooperative_groups|cuda_fp\d+|cuda_bf16"
    r"|texture_\w*functions|surface_\w*functions|vector_functions|mma|cuda_pipeline\w*|cuda_awbarrier\w*|common_functions|__nv_nvrtc_builtin_header)\.(h|hpp)$"
)


def is_toolkit_header(file: str) -> bool:
    """Whether a file that line information names comes with the compiler rather than with the user's program."""
    return _TOOLKIT.search(file) is not None


def user_location(loc: SourceLocation | None, files: Mapping[int, str]) -> tuple[SourceLocation | None, list[SourceLocation]]:
    """The innermost place in the user's own source (else the innermost of all), and the calls that it was inlined through."""
    chain = []
    while loc is not None:
        chain.append(loc)
        loc = loc.inlined_at
    first = next((k for k, place in enumerate(chain) if not is_toolkit_header(files.get(place.file, ""))), 0)
    return (chain[first] if chain else None), chain[first + 1 :]

"""Where in the user's own source an instruction stands: headers of the toolkit are looked through."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

# The toolkit's own headers, by path or by name: a shuffle or an atomic is a function there, inlined into the user's line.
_TOOLKIT = re.compile(
    r"(^|/)(nvrtc-headers[^/]*|gridstride/frontends/headers|crt|cuda/std|cuda/__\w+|cub|thrust|nv|cooperative_groups)/"
    r"|(^|/)(sm_\d+_\w+|device_atomic_functions|device_functions|device_double_functions|math_functions|cooperative_groups|cuda_fp\d+|cuda_bf16"
    r"|texture_\w*functions|surface_\w*functions|vector_functions|mma|cuda_pipeline\w*|cuda_awbarrier\w*|common_functions)\.(h|hpp)$"
)


def is_toolkit_header(file: str) -> bool:
    """Whether a file that line information names comes with the compiler rather than with the user's program."""
    return _TOOLKIT.search(file) is not None


def user_place(site: Sequence[Any], file_names: Mapping[int, str]) -> tuple[str | None, int | None]:
    """File and line of a site (`KernelCode.sites`): the innermost that is the user's, else the outermost; (None, None) without line information."""
    _, file, line, *rest = site
    inlined = rest[-1] if rest and isinstance(rest[-1], list | tuple) else []
    chain = [(file, line), *((f, n) for f, n in inlined)] if file is not None else []
    named = [(file_names[f], n) for f, n in chain if f in file_names]
    if not named:
        return None, None
    return next(((name, n) for name, n in named if not is_toolkit_header(name)), named[-1])

"""numba.cuda on the simulator: `import gridstride.numba`, and what follows runs without a GPU.

    import gridstride.numba      # first
    from numba import cuda

    @cuda.jit
    def scale(x): …

    scale[blocks, 256](x)

Where the machine has a GPU, importing this changes nothing, and numba's own driver runs the program; `GRIDSTRIDE_DEVICE=sim:a100` in the environment,
or `gridstride.numba.use("sim:a100")` before numba.cuda is used, chooses. The same for a script as it is: `gridstride run script.py`, or
`python -m gridstride.numba script.py`, which takes the same options.
"""

from __future__ import annotations

import sys

from gridstride.numba_host import current, use

__all__ = ["current", "use"]

if __name__ == "__main__":
    from gridstride.cli import main

    main(["run", *sys.argv[1:]])
elif current() is None:
    use()

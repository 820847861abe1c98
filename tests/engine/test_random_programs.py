"""Random kernels against their Python models (see random_programs.py)."""

from __future__ import annotations

import numpy as np
import pytest

from engine.kernels import Kernels
from engine.random_programs import BLOCK, make, modelled

BLOCKS, N = 2, 1000


# 103 and 163 are very large: code without optimisation, with frames of megabytes
@pytest.mark.parametrize("seed", [*range(12), 103, 163])
def test_a_random_kernel(seed: int) -> None:
    source, thread = make(seed)
    # every third one as the compiler leaves it without optimisation: every variable in local memory, every call a call
    program = Kernels(source, options=("--device-debug",)) if seed % 3 == 2 and seed < 100 else Kernels(source)
    given = np.random.default_rng(seed).integers(0, 2**32, BLOCKS * BLOCK, dtype=np.uint32)
    given[::5] &= 15
    _, out = program.run("random_kernel", BLOCKS, BLOCK, given, np.zeros(BLOCKS * BLOCK, np.uint32), N)
    for block in range(BLOCKS):
        part = slice(block * BLOCK, (block + 1) * BLOCK)
        expected = modelled(thread, block, N, [int(x) for x in given[part]])
        np.testing.assert_array_equal(out[part], np.array(expected, np.uint32))

"""grid.sync() of cooperative groups in cooperative launches."""

from __future__ import annotations

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import KernelFault, LaunchError

pytest.importorskip("cuda.bindings.nvrtc")

SOURCE = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__device__ int total[3];
extern "C" __global__ void rounds(const int *x, int *out) {
  cg::grid_group g = cg::this_grid();
  int i = g.thread_rank(), v = x[i];
  for (int round = 0; round < 3; ++round) {
    atomicAdd(&total[round], v);
    g.sync();
    v = total[round] % 1000 + i;
  }
  out[i] = v + (int)g.size();
}
"""


@pytest.fixture(scope="module")
def module() -> gs.Module:
    return gs.device("sim:h200").compile(SOURCE)


def test_all_blocks_meet(module: gs.Module) -> None:
    fresh = module.fresh()
    out = fresh.device.zeros(1024, np.int32)
    fresh["rounds"][8, 128](fresh.device.array(np.arange(1024, dtype=np.int32)), out, cooperative=True)
    rank, values = np.arange(1024), np.arange(1024)
    for _ in range(3):
        values = values.sum() % 1000 + rank
    assert (out.numpy() == values + 1024).all()


def test_without_a_cooperative_launch_it_traps_as_cuda_does(module: gs.Module) -> None:
    fresh = module.fresh()
    with pytest.raises(KernelFault, match="trap"):
        fresh["rounds"][8, 128](fresh.device.zeros(1024, np.int32), fresh.device.zeros(1024, np.int32))


def test_more_blocks_than_the_device_holds_are_refused(module: gs.Module) -> None:
    fresh = module.fresh()
    with pytest.raises(LaunchError, match=r"cooperative launch of 2,113 blocks: .* holds 2,112 of them at once"):
        fresh["rounds"][2113, 128](fresh.device.zeros(1, np.int32), fresh.device.zeros(1, np.int32), cooperative=True)

"""Launch contracts: the same errors before anything runs, and the same launches, on every device."""

from __future__ import annotations

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import ContractError

from .conftest import SOURCE, N, blocks


def test_a_launch_that_breaks_its_contract_does_not_start(device: gs.Device, module: gs.Module) -> None:
    kernel = module["next"].with_contract(gs.Contract(extent="n", block=128, covers="to", extents={"from": "n"}, distinct=("from", "to")))
    start, to = device.array(np.arange(N, dtype=np.int32)), device.zeros(N, np.int32)
    for clause, launch in (
        ("block", lambda: kernel[blocks(N, 64), 64](N, start, to)),
        ("extent", lambda: kernel[N // 128, 128](N, start, to)),
        ("extents", lambda: kernel[blocks(N), 128](N, start, to[: N - 1])),
        ("distinct", lambda: kernel[blocks(N - 1), 128](N - 1, to[1:], to[:-1])),
    ):
        with pytest.raises(ContractError) as broken:
            launch()
        assert broken.value.clause == clause
    assert not to.numpy().any()  # and the device goes on
    kernel.for_each(N)(N, start, to)
    assert np.array_equal(to.numpy(), np.arange(1, N + 1))


def test_shared_memory_from_the_contract(device: gs.Device) -> None:
    kernel = device.compile(SOURCE, contracts={"last_byte": gs.Contract(shared="bytes", block=2)})["last_byte"]
    out = device.zeros(1, np.int32)
    with pytest.raises(ContractError, match="need 60,000 bytes of dynamic shared memory, and the launch gives 0; pass shared=60000"):
        kernel[1, 2](60_000, out)
    kernel[1, 2](60_000, out, shared=60_000)
    assert out.item() == 7

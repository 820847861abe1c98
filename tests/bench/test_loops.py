"""The C++ loops are a fair yardstick only if they compute what the kernels compute: here, what an H200 computed."""

import json
from pathlib import Path

import numpy as np
import pytest

from gridstride.bench.cases import buffer_bytes, contents, saxpy_case, scaled_cases
from gridstride.bench.loops import SOURCE, Loops, find_compiler
from gridstride.bench.verify import TOLERANCES
from gridstride.cases import parse_case
from gridstride.errors import GridstrideError
from gridstride.runtime.request import Buffer, LaunchRequest

TRUTH = Path(__file__).parent.parent / "truth"
CASES = [parse_case(entry, "cases.json") for entry in json.loads((TRUTH / "cases.json").read_text())]
WITHOUT_LOOPS = {"spin_lock"}  # measures waiting; a sequential program has nothing like it

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="there is no g++ here")


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Loops:
    compiler = find_compiler()
    assert compiler
    return Loops(compiler, tmp_path_factory.mktemp("loops"))


@pytest.fixture(scope="module")
def truth() -> dict[str, np.ndarray]:
    with np.load(TRUTH / "outputs.npz") as outputs:
        return dict(outputs)


@needs_compiler
@pytest.mark.parametrize("case", [case for case in CASES if case.kernel not in WITHOUT_LOOPS], ids=lambda case: case.name)
def test_loops_give_what_the_gpu_gave(case: LaunchRequest, loops: Loops, truth: dict[str, np.ndarray]) -> None:
    arrays = [contents(argument) for argument in case.arguments]
    loops.call(case, arrays)
    compared = 0
    for index, (argument, got) in enumerate(zip(case.arguments, arrays, strict=True)):
        if not (isinstance(argument, Buffer) and argument.out):
            continue
        want = truth[f"{case.name}.{index}"]
        assert got is not None
        if case.kernel in TOLERANCES:
            np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCES[case.kernel] * np.abs(want).max())
        else:
            assert got.tobytes() == want.tobytes()
        compared += 1
    assert compared


@needs_compiler
def test_saxpy_loop_is_one_fused_multiply_add(loops: Loops) -> None:
    case = saxpy_case(1000)  # the last block is partly idle
    _, x, y, _ = arrays = [contents(argument) for argument in case.arguments]
    assert x is not None and y is not None
    want = (2.0 * x.astype(np.float64) + y).astype(np.float32)  # exact in double: a product of 25 bits and one addition
    loops.call(case, arrays)
    np.testing.assert_array_equal(y, want)


def test_a_compiler_that_fails_is_reported(tmp_path: Path) -> None:
    with pytest.raises(GridstrideError, match="^/bin/false could not build the C\\+\\+ loops: exit status 1$"):
        Loops("/bin/false", tmp_path)


def test_every_truth_kernel_is_benchmarked() -> None:
    assert {case.kernel for case in scaled_cases()} == {case.kernel for case in CASES} - WITHOUT_LOOPS


def test_the_shipped_ptx_is_the_truth_sets() -> None:
    shipped = SOURCE.parent / "kernels.ptx"
    assert shipped.read_bytes() == (TRUTH / "kernels.ptx").read_bytes()


@pytest.mark.parametrize("divide", [1, 8])
def test_scaled_cases_fit_a_small_machine(divide: int) -> None:
    assert max(buffer_bytes(case) for case in scaled_cases(divide)) <= 512e6


@needs_compiler
@pytest.mark.parametrize("case", scaled_cases(512), ids=lambda case: case.name)
def test_scaled_launches_stay_inside_their_buffers(case: LaunchRequest, loops: Loops) -> None:
    """Buffers stand between guards; what is only read is not changed, and what is poisoned is overwritten."""
    guard = 4096
    held, arrays = [], []
    for argument in case.arguments:
        array = contents(argument)
        if array is not None:
            whole = np.full(array.nbytes + 2 * guard, 0x5A, np.uint8)
            whole[guard : guard + array.nbytes] = array.view(np.uint8)
            held.append((argument, whole, array))
            array = whole[guard : guard + array.nbytes].view(array.dtype)
        arrays.append(array)
    loops.call(case, arrays)
    for argument, whole, before in held:
        assert (whole[:guard] == 0x5A).all() and (whole[-guard:] == 0x5A).all()
        after = whole[guard:-guard].view(before.dtype)
        if not argument.out:
            np.testing.assert_array_equal(after.view(np.uint8), before.view(np.uint8))
        elif argument.initial.kind == "poison" and before.itemsize > 1:
            assert not (after == before).any()

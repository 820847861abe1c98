"""Case files: the truth set's inputs by their recorded hashes, and every refusal word for word."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridstride.cases import parse_case, read_cases, select_cases
from gridstride.errors import UsageError
from gridstride.runtime.request import Argument, Buffer, RawPointer, Scalar

TRUTH = Path(__file__).parent.parent / "truth"


def wrong(message: str) -> Any:
    return pytest.raises(UsageError, match=f"^{re.escape(message)}$")


def case(*args: Any, **changes: Any) -> dict[str, Any]:
    return {"name": "one", "kernel": "k", "grid": [1, 1, 1], "block": [32, 1, 1], "smem": 0, "args": list(args), **changes}


def parsed(*args: Any) -> tuple[Argument, ...]:
    return parse_case(case(*args), "f").arguments


def test_random_inputs_have_the_recorded_hashes() -> None:
    hashes = json.loads((TRUTH / "input_hashes.json").read_text())
    checked = set()
    for file in ("cases.json", "bug_cases.json"):
        for request in read_cases(TRUTH / file):
            for position, argument in enumerate(request.arguments):
                key = f"{request.name}.{position}"
                if key in hashes and isinstance(argument, Buffer):
                    values = argument.initial.build(argument.dtype, argument.count)
                    assert values is not None
                    assert hashlib.sha256(values.tobytes()).hexdigest()[:16] == hashes[key], key
                    checked.add(key)
    assert checked == set(hashes)


@pytest.mark.parametrize("file", ["cases.json", "bug_cases.json", "timing_cases.json"])
def test_truth_files_are_read_whole(file: str) -> None:
    requests = read_cases(TRUTH / file)
    raw = json.loads((TRUTH / file).read_text())
    assert [request.name for request in requests] == [entry["name"] for entry in raw]
    assert [list(request.grid) for request in requests] == [entry["grid"] for entry in raw]
    assert [len(request.arguments) for request in requests] == [len(entry["args"]) for entry in raw]


def test_arguments_of_every_kind() -> None:
    scalar, address, words, literal = parsed(
        ["i32", -3], ["ptr", 0], ["buf", "u32", 3, "poison", {"out": True}], ["buf", "i32", 2, ["literal", [7, 8]], {"out": False}]
    )
    assert isinstance(scalar, Scalar) and scalar.value.dtype == np.int32 and scalar.value == -3
    assert address == RawPointer(0)
    assert isinstance(words, Buffer) and words.out
    values = words.initial.build(words.dtype, words.count)
    assert values is not None and values.tolist() == [0xA5A5A5A5] * 3
    assert isinstance(literal, Buffer) and not literal.out
    values = literal.initial.build(literal.dtype, literal.count)
    assert values is not None and values.tolist() == [7, 8]


def test_only_keeps_the_files_order() -> None:
    requests = read_cases(TRUTH / "cases.json")
    assert [request.name for request in select_cases(requests, ["saxpy_vec4", "vec_add"])] == ["vec_add", "saxpy_vec4"]
    assert select_cases(requests, []) == requests
    with wrong("no case is called 'vecadd'; did you mean 'vec_add'?"):
        select_cases(requests, ["vecadd"])


def test_file_wrong(tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    with wrong(f"there is no case file {path}"):
        read_cases(path)
    path.write_text('[\n{"name": }]')
    with wrong(f"{path}, line 2: not JSON: Expecting value"):
        read_cases(path)
    path.write_text("{}")
    with wrong(f"{path}: a case file is a JSON list of cases, not an object"):
        read_cases(path)
    path.write_text(json.dumps([case(), case()]))
    with wrong(f"{path}: two cases are called 'one'"):
        read_cases(path)
    path.write_text("[5]")
    with wrong(f"{path}, case 1: a case is an object, not a number"):
        read_cases(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "f: 'name' is a text, not ''"),
        ({"kernel": 5}, "f: 'kernel' is a text, not 5"),
        ({"smem": -1}, "f (one): 'smem' is a number of bytes, not -1"),
        ({"cooperative": 1}, "f (one): 'cooperative' is true or false, not 1"),
        ({"cluster": [1, 2, 3, 4]}, "f (one): the cluster must have one to three dimensions, not 4: [1, 2, 3, 4]"),
        ({"smem": 1.5}, "f (one): 'smem' is a number of bytes, not 1.5"),
        ({"args": {}}, "f (one): 'args' is a list, not an object"),
        ({"color": 1}, "f: unknown field 'color'; a case has name, kernel, grid, block, args, smem, cooperative, cluster"),
    ],
)
def test_field_wrong(changes: dict[str, Any], message: str) -> None:
    with wrong(message):
        parse_case(case(**changes), "f")


def test_missing_and_dimensions_wrong() -> None:
    entry = case()
    del entry["grid"], entry["args"]
    with wrong("f: 'grid', 'args' missing"):
        parse_case(entry, "f")
    with pytest.raises(UsageError, match=r"^f \(one\): the grid must have one to three dimensions"):
        parse_case(case(grid=[1, 2, 3, 4]), "f")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (["i33", 1], "unknown kind 'i33'; there are buf, ptr, i8, i16, i32, i64, u8, u16, u32, u64, f16, f32, f64"),
        (["i32", 2**31], "2147483648 does not fit int32 (-2147483648 to 2147483647)"),
        (["i32", 1.5], "1.5 does not fit int32 (-2147483648 to 2147483647)"),
        (["i32", "1"], "i32 takes a number, not '1'"),
        (["i32"], "['i32', VALUE] has two parts, not 1"),
        (["ptr", -1], "an address is a number from 0 to 2^64 - 1, not -1"),
        (["buf", "f32", 4], "a buffer is [\"buf\", TYPE, COUNT, INIT, {\"out\": BOOL}], not ['buf', 'f32', 4]"),
        (["buf", "f31", 4, "zeros"], "unknown type 'f31'; the types are i8, i16, i32, i64, u8, u16, u32, u64, f16, f32, f64"),
        (["buf", "f32", -4, "zeros"], "a buffer's count is a whole number, not -4"),
        (["buf", "f32", 4, "zeros", {"output": True}], 'a buffer\'s flags are {"out": true} or {"out": false}, not {\'output\': True}'),
        (
            ["buf", "f32", 4, "zero"],
            'unknown initialiser \'zero\'; there are zeros, ones, poison, arange, none, ["const", V], ["literal", […]], ["randint", LOW, HIGH, SEED], ["uniform", LOW, HIGH, SEED]',
        ),
        (5, 'an argument is a list such as ["i32", 5] or ["buf", "f32", 100, "zeros", {"out": true}], not 5'),
    ],
)
def test_argument_wrong(argument: Any, message: str) -> None:
    with wrong(f"f (one), argument 0: {message}"):
        parse_case(case(argument), "f")

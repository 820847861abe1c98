"""The `--arg` language: what each form means, and each refusal word for word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridstride.arguments import parse_arguments, parse_dimensions, parse_value
from gridstride.errors import UsageError
from gridstride.runtime.request import Argument, Buffer, RawPointer, Scalar

SAXPY = [["n", "saxpy_param_0"], ["a", "saxpy_param_1"], ["x", "saxpy_param_2"], ["y", "saxpy_param_3"]]


def wrong(message: str) -> Any:
    return pytest.raises(UsageError, match=f"^{re.escape(message)}$")


def buffer(text: str, position: int = 0, **scalars: int) -> Buffer:
    argument = parse_value(text, position, scalars)
    assert isinstance(argument, Buffer)
    return argument


def content(argument: Argument) -> Any:
    assert isinstance(argument, Buffer)
    values = argument.initial.build(argument.dtype, argument.count)
    return None if values is None else values.reshape(argument.shape)


def test_the_kernels_order_whatever_the_order_given() -> None:
    parsed = parse_arguments(["a=2.0", "n=1000", "y=f32[n]:zeros:out", "x=f32[n]:uniform"], "saxpy", SAXPY)
    n, a, x, y = parsed.arguments
    assert (n, a) == (Scalar(1000), Scalar(2.0))
    assert isinstance(x, Buffer) and not x.out and x.shape == (1000,)
    assert isinstance(y, Buffer) and y.out and not content(y).any()
    assert np.array_equal(content(x), np.random.default_rng(3).uniform(0, 1, 1000).astype(np.float32))


def test_ptx_names_and_positions() -> None:
    parsed = parse_arguments(["saxpy_param_0=4", "p1=1", "p2=f32[n]", "p3=f32[saxpy_param_0*2]"], "saxpy", SAXPY)
    assert [argument.shape for argument in parsed.arguments[2:] if isinstance(argument, Buffer)] == [(4,), (8,)]


def test_scalars() -> None:
    assert parse_value("1000", 0, {}) == Scalar(1000)
    assert parse_value("n*(n+1)//2", 0, {"n": 4}) == Scalar(10)
    typed = parse_value("u64:2**63", 0, {})
    assert isinstance(typed, Scalar) and typed.value == np.uint64(2**63) and typed.value.dtype == np.uint64
    half = parse_value("f16:0.1", 0, {})
    assert isinstance(half, Scalar) and half.value.dtype == np.float16
    assert parse_value("ptr:0x1000", 0, {}) == RawPointer(4096)


def test_initialisers() -> None:
    assert content(buffer("i32[3]")).tolist() == [0, 0, 0]
    assert content(buffer("f64[2]:ones")).tolist() == [1.0, 1.0]
    assert content(buffer("u32[2]:poison")).tolist() == [0xA5A5A5A5] * 2
    assert content(buffer("u8[4]:none")) is None
    assert content(buffer("i16[4]:arange")).tolist() == [0, 1, 2, 3]
    assert content(buffer("f32[2]:const=n/4", n=2)).tolist() == [0.5, 0.5]
    expected = np.random.default_rng(7).uniform(-1, 1, 5).astype(np.float32)
    assert np.array_equal(content(buffer("f32[5]:uniform:-1:1:7")), expected)
    assert np.array_equal(content(buffer("f32[5]:uniform:-1:1", position=6)), expected)
    assert np.array_equal(content(buffer("i32[6]:randint:0:n:3", n=10)), np.random.default_rng(3).integers(0, 10, 6).astype(np.int32))
    assert np.array_equal(content(buffer("u8[6]:randint", position=2)), np.random.default_rng(3).integers(0, 256, 6).astype(np.uint8))


def test_shapes() -> None:
    assert buffer("f32[h, cdiv(w, 2), 3]", h=4, w=5).shape == (4, 3, 3)
    assert buffer("f32[0]").shape == (0,)


def test_files(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.int16).reshape(2, 3)
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "a.npz", first=values, second=values * 2)
    values.tofile(tmp_path / "a.bin")
    whole = buffer(f"@{tmp_path}/a.npy:out")
    assert whole.out and whole.shape == (2, 3) and np.array_equal(content(whole), values)
    assert np.array_equal(content(buffer(f"@{tmp_path}/a.npz#second")), values * 2)
    assert np.array_equal(content(buffer(f"i16[6]:@{tmp_path}/a.npy")), values.reshape(-1))
    assert np.array_equal(content(buffer(f"u8[]:@{tmp_path}/a.bin")), values.view(np.uint8).reshape(-1))
    with wrong(f"{tmp_path}/a.npz holds 2 arrays (first, second): pick one, as in @{tmp_path}/a.npz#first"):
        buffer(f"@{tmp_path}/a.npz")
    with wrong(f"{tmp_path}/a.npz holds no array 'third'; it holds first, second"):
        buffer(f"@{tmp_path}/a.npz#third")
    with wrong(f"{tmp_path}/a.npy holds 6 elements, but the buffer holds 7"):
        content(buffer(f"i16[7]:@{tmp_path}/a.npy"))
    with wrong(f"{tmp_path}/a.npy holds int16, but the buffer is float32: convert the file or change the type"):
        content(buffer(f"f32[6]:@{tmp_path}/a.npy"))
    with wrong(f"there is no file {tmp_path}/b.npy"):
        buffer(f"@{tmp_path}/b.npy")
    with wrong(f"{tmp_path}/a.bin is raw bytes: say of which type, as in x=f32[n]:@a.bin"):
        buffer(f"@{tmp_path}/a.bin")
    (tmp_path / "bad.npy").write_bytes(b"\x00" * 10)
    with pytest.raises(UsageError, match=f"^cannot read {tmp_path}/bad.npy as an array: "):
        buffer(f"@{tmp_path}/bad.npy")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["n"], "--arg n: write NAME=VALUE, as in n=1000 or x=f32[n]:uniform"),
        (["m=1"], "--arg m=1: saxpy has no parameter 'm' (it has n, a, x, y)"),
        (["p4=1"], "--arg p4=1: saxpy has no parameter 'p4' (it has n, a, x, y)"),
        (["n=1", "p0=2"], "--arg p0=2: the parameter 'n' already has an argument"),
        (["n=1", "x=f32[4]"], "saxpy has 4 parameters; no --arg for a, y"),
        (["n="], "--arg n=: there is no value"),
        (["x=f32[n]", "n=4"], "--arg x=f32[n]: 'n' uses 'n', which no earlier scalar argument defines (defined so far: none)"),
        (["x=f32"], "--arg x=f32: a buffer needs its size, as in f32[1000]"),
        (["x=f32[]:zeros"], "--arg x=f32[]:zeros: a buffer needs its size, as in f32[1000]"),
        (["x=f32:zeros"], "--arg x=f32:zeros: a buffer needs its size, as in f32[1000]:zeros"),
        (["x=float32[4]"], "--arg x=float32[4]: unknown type 'float32'; the types are i8, i16, i32, i64, u8, u16, u32, u64, f16, f32, f64; did you mean 'f32'?"),
        (["x=f32[4]zeros"], "--arg x=f32[4]zeros: expected ':' after the size, found 'zeros'"),
        (["x=f32[4]:zero"], "--arg x=f32[4]:zero: unknown initialiser 'zero'; there are zeros, ones, poison, none, arange, const=V, uniform, randint, @FILE; did you mean 'zeros'?"),
        (["x=f32[4]:zeros:1"], "--arg x=f32[4]:zeros:1: zeros takes nothing after it, found '1'"),
        (["x=f32[4]:uniform:1"], "--arg x=f32[4]:uniform:1: write uniform, uniform:LOW:HIGH or uniform:LOW:HIGH:SEED"),
        (["x=f32[1.5]"], "--arg x=f32[1.5]: a size must be a whole number, but '1.5' is 1.5"),
        (["n=u8:300"], "--arg n=u8:300: 300 does not fit uint8 (0 to 255)"),
        (["x=@"], "--arg x=@: there is no file name after @"),
    ],
)  # fmt: skip
def test_text_wrong(texts: list[str], message: str) -> None:
    with wrong(message):
        parse_arguments(texts, "saxpy", SAXPY)


def test_values_that_do_not_fit_wrong() -> None:
    with wrong("300 does not fit uint8 (0 to 255)"):
        content(buffer("u8[4]:const=300"))
    with wrong("0.5 does not fit int32 (-2147483648 to 2147483647)"):
        content(buffer("i32[4]:const=0.5"))
    with pytest.raises(UsageError, match="^randint cannot draw from 5 to 5: "):
        content(buffer("i32[4]:randint:5:5"))


def test_dimensions() -> None:
    assert parse_dimensions("cdiv(n,256)", {"n": 1000}, "--grid") == (4,)
    assert parse_dimensions("16x8", {}, "--block") == (16, 8)
    assert parse_dimensions("n, 2, 1", {"n": 3}, "--grid") == (3, 2, 1)
    with wrong("--grid 1,2,3,4 has 4 dimensions; there are at most 3"):
        parse_dimensions("1,2,3,4", {}, "--grid")
    with wrong("--grid 0.5: a dimension must be a whole number, but '0.5' is 0.5"):
        parse_dimensions("0.5", {}, "--grid")

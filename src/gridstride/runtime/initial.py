"""What a buffer holds before a launch: the element types and the ways to fill, named as case files and `--arg` name them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gridstride.errors import UsageError

Kind = Literal["zeros", "ones", "poison", "none", "arange", "const", "literal", "uniform", "randint", "file"]

DTYPES: dict[str, np.dtype[Any]] = {
    **{f"{kind}{bits}": np.dtype(f"{long}{bits}") for kind, long in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)},
    **{f"f{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
}
POISON_BYTE = 0xA5
"""Every byte of a poisoned buffer: an output element that still shows it was not written."""


@dataclass(frozen=True)
class Initial:
    """The content of a buffer before the launch.

    `numbers` are const's value, literal's elements, or low, high and seed of uniform and randint
    (`numpy.random.default_rng(seed)`, high excluded, drawn in NumPy's default type and then cast).
    """

    kind: Kind
    numbers: tuple[float, ...] = ()
    path: Path | None = None
    member: str | None = None

    def build(self, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any] | None:
        """`count` elements of `dtype`, flat; None where nothing is to be written ("none").

        Raises UsageError where the numbers cannot make that many elements of that type.
        """
        match self.kind:
            case "none":
                return None
            case "zeros":
                return np.zeros(count, dtype)
            case "ones":
                return np.ones(count, dtype)
            case "poison":
                return np.full(count * dtype.itemsize, POISON_BYTE, np.uint8).view(dtype)
            case "arange":
                return np.arange(count).astype(dtype)
            case "const":
                return np.full(count, typed(dtype, self.numbers[0]), dtype)
            case "literal":
                if len(self.numbers) != count:
                    raise UsageError(f"the literal has {len(self.numbers)} elements, but the buffer holds {count}")
                return np.array([typed(dtype, number) for number in self.numbers], dtype)
            case "file":
                return self._from_file(dtype, count)
            case "uniform" | "randint":
                low, high, seed = self.numbers
                generator = np.random.default_rng(int(seed))
                try:
                    if self.kind == "uniform":
                        return generator.uniform(low, high, count).astype(dtype)
                    return generator.integers(int(low), int(high), count).astype(dtype)
                except (ValueError, OverflowError) as error:
                    raise UsageError(f"{self.kind} cannot draw from {low} to {high}: {error}") from None

    def _from_file(self, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
        assert self.path is not None
        values = read_array(self.path, self.member, dtype)
        if values.dtype != dtype:
            raise UsageError(f"{self.path} holds {values.dtype}, but the buffer is {dtype}: convert the file or change the type")
        if values.size != count:
            raise UsageError(f"{self.path} holds {values.size} elements, but the buffer holds {count}")
        return values.reshape(-1)


def typed(dtype: np.dtype[Any], value: float) -> np.generic:
    """The number as a NumPy scalar. Raises UsageError for an integer type that cannot hold it; floats are rounded."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            rounded: np.generic = dtype.type(value)
        return rounded
    limits = np.iinfo(dtype)
    if not (limits.min <= value <= limits.max and value == int(value)):
        raise UsageError(f"{value} does not fit {dtype} ({limits.min} to {limits.max})")
    whole: np.generic = dtype.type(int(value))
    return whole


def read_array(path: Path, member: str | None = None, dtype: np.dtype[Any] | None = None) -> npt.NDArray[Any]:
    """The array in a `.npy`, `.npz` (`member` names which) or raw `.bin` file (`dtype` says of what).

    Raises UsageError with the reason where there is none; pickled objects are never loaded.
    """
    try:
        if path.suffix == ".bin":
            if dtype is None:
                raise UsageError(f"{path} is raw bytes: say of which type, as in x=f32[n]:@{path.name}")
            return np.fromfile(path, dtype)
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return np.ascontiguousarray(loaded)
        with loaded:
            names = list(loaded.files)
            if member is None and len(names) != 1:
                raise UsageError(
                    f"{path} holds {len(names)} arrays ({', '.join(names)}): pick one, as in @{path}#{names[0] if names else 'NAME'}"
                )
            if member is not None and member not in names:
                raise UsageError(f"{path} holds no array {member!r}; it holds {', '.join(names) or 'none'}")
            return np.ascontiguousarray(loaded[member or names[0]])
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}") from None
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(f"cannot read {path} as an array: {error}") from None

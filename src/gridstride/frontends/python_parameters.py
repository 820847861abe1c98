"""How the arguments of a kernel written in Python lie in the parameter list of its PTX: the same for every compiler that follows Numba's rule.

An array of n dimensions takes 5 + 2n parameters of 64 bits: an owner and its parent (both null on a device), the number of elements, bytes of
an element, the address of the first, the extents, and the strides in bytes (numba-cuda, `numba/cuda/dispatcher.py`, `_prepare_args`). A complex
number takes two, a tuple those of its members, a record the address of a copy in device memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridstride.frontends.signatures import Parameter

_NULL = np.uint64(0)

# Of each kind of argument: `spelled`, its type for people; `parameters`, those of the PTX entry that it takes; `values`, what goes into them.


@dataclass(frozen=True)
class Number:
    """One number, truth value, date or address. type: as NumPy names it (`float32`, `bool`), `void*` for an address."""

    name: str
    type: str

    @property
    def spelled(self) -> str:
        return self.type

    def parameters(self) -> tuple[Parameter, ...]:
        return (Parameter(self.name, self.type),)

    def values(self, value: Any) -> list[Any]:
        if isinstance(value, np.datetime64 | np.timedelta64):
            return [value.view(np.int64)]
        # Numba converts as a cast in C does: an argument of another type than the signature says is no error there.
        if self.type.startswith(("int", "uint")) and isinstance(value, float | np.floating | bool | np.bool_):
            return [int(value)]
        return [bool(value)] if self.type == "bool" else [value]


@dataclass(frozen=True)
class Complex:
    """A complex number: its real part, its imaginary part. part: the type of each."""

    name: str
    part: str

    @property
    def spelled(self) -> str:
        return {"float32": "complex64", "float64": "complex128"}[self.part]

    def parameters(self) -> tuple[Parameter, ...]:
        return Parameter(f"{self.name}.real", self.part), Parameter(f"{self.name}.imag", self.part)

    def values(self, value: Any) -> list[Any]:
        number = complex(value)
        if isinstance(value, np.complexfloating):
            return [value.real, value.imag]
        return [number.real, number.imag]


@dataclass(frozen=True)
class DeviceArray:
    """An array in device memory. element: its type as NumPy names it."""

    name: str
    element: str
    dimensions: int

    @property
    def spelled(self) -> str:
        return f"{'record' if self.element == 'void' else self.element}[{', '.join(':' * self.dimensions)}]"

    def parameters(self) -> tuple[Parameter, ...]:
        axes = range(self.dimensions)
        return (
            Parameter(f"{self.name}.meminfo", "uint64"),
            Parameter(f"{self.name}.parent", "uint64"),
            Parameter(f"{self.name}.size", "int64"),
            Parameter(f"{self.name}.itemsize", "int64"),
            Parameter(self.name, f"{self.element}*"),
            *(Parameter(f"{self.name}.shape[{axis}]", "int64") for axis in axes),
            *(Parameter(f"{self.name}.strides[{axis}]", "int64") for axis in axes),
        )

    def values(self, value: Any) -> list[Any]:
        return [_NULL, _NULL, value.size, value.dtype.itemsize, value, *value.shape, *value.strides]


@dataclass(frozen=True)
class Record:
    """A structure, which lies in device memory; the kernel gets its address."""

    name: str

    @property
    def spelled(self) -> str:
        return "record"

    def parameters(self) -> tuple[Parameter, ...]:
        return (Parameter(self.name, "void*"),)

    def values(self, value: Any) -> list[Any]:
        return [value]


@dataclass(frozen=True)
class Members:
    """A tuple, named or not."""

    name: str
    items: tuple[Argument, ...]

    @property
    def spelled(self) -> str:
        return f"({', '.join(item.spelled for item in self.items)})"

    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(parameter for item in self.items for parameter in item.parameters())

    def values(self, value: Any) -> list[Any]:
        return [one for item, member in zip(self.items, value, strict=True) for one in item.values(member)]


@dataclass(frozen=True)
class EnumMember:
    """A member of an enumeration: its value."""

    item: Number

    @property
    def name(self) -> str:
        return self.item.name

    @property
    def spelled(self) -> str:
        return self.item.type

    def parameters(self) -> tuple[Parameter, ...]:
        return self.item.parameters()

    def values(self, value: Any) -> list[Any]:
        return self.item.values(value.value)


Argument = Number | Complex | DeviceArray | Record | Members | EnumMember


def flat_parameters(arguments: Sequence[Argument]) -> tuple[Parameter, ...]:
    """The parameters of the PTX entry, in order."""
    return tuple(parameter for argument in arguments for parameter in argument.parameters())


def flat_values(arguments: Sequence[Argument], values: Sequence[Any]) -> list[Any]:
    """What goes into them, in order; arrays and records stand for their own addresses."""
    return [flat for argument, value in zip(arguments, values, strict=True) for flat in argument.values(value)]

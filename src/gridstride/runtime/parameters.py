"""A kernel's parameters as a caller meets them: PTX's layout joined with the source's names and types, where the source is known."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from gridstride.frontends.source import LoadedSource
from gridstride.isa.types import ScalarType
from gridstride.machine.program import Program

_C_NAMES: dict[str, str] = {
    "bool": "bool",
    **dict.fromkeys(("char", "signed char", "int8_t"), "int8"),
    **dict.fromkeys(("unsigned char", "uchar", "uint8_t"), "uint8"),
    **dict.fromkeys(("short", "short int", "int16_t"), "int16"),
    **dict.fromkeys(("unsigned short", "unsigned short int", "ushort", "uint16_t"), "uint16"),
    **dict.fromkeys(("int", "signed", "signed int", "int32_t"), "int32"),
    **dict.fromkeys(("unsigned", "unsigned int", "uint", "uint32_t"), "uint32"),
    **dict.fromkeys(("long", "long int", "long long", "long long int", "int64_t", "ptrdiff_t", "ssize_t"), "int64"),
    **dict.fromkeys(
        (
            "unsigned long",
            "unsigned long int",
            "unsigned long long",
            "unsigned long long int",
            "ulonglong",
            "uint64_t",
            "size_t",
            "uintptr_t",
        ),
        "uint64",
    ),
    **dict.fromkeys(("__half", "half"), "float16"),
    "float": "float32",
    "double": "float64",
    # kernels written in Python name types as NumPy does
    **{name: name for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")},
}
_C_DTYPES = {name: np.dtype(dtype) for name, dtype in _C_NAMES.items()}
_QUALIFIERS = re.compile(
    r"\b(const|volatile|struct|class|enum|typename|std::|::std::|cuda::std::)(?=\W|$)\s*|\b__restrict__\b|\b__restrict\b|\b__grid_constant__\b"
)
_VECTOR = re.compile(r"(u?(?:char|short|int|longlong)|float|double)([1-4])(_16a|_32a)?")
_VECTOR_BASES = {"char": "int8", "uchar": "uint8", "short": "int16", "ushort": "uint16", "int": "int32", "uint": "uint32"}
_VECTOR_BASES |= {"longlong": "int64", "ulonglong": "uint64", "float": "float32", "double": "float64"}


@dataclass(frozen=True)
class KernelParameter:
    """One parameter. `type` is PTX's, None for a structure; `size`, `align` and `offset` are bytes in the parameter buffer.

    c_type: the type as the source writes it; None for PTX alone, which does not tell an address from a 64-bit number.
    argument: the position of the argument in the source that it belongs to, where one argument takes several parameters.
    """

    position: int
    name: str
    ptx_name: str
    type: ScalarType | None
    size: int
    align: int
    offset: int
    c_type: str | None = None
    argument: int | None = None

    @property
    def number(self) -> int:
        """Which argument of a call it is (or belongs to), from 1."""
        return 1 + (self.position if self.argument is None else self.argument)

    @property
    def wide_integer(self) -> bool:
        """Could hold an address: 64 bits, not floating point."""
        return self.type is not None and self.type.bits == 64 and self.type.kind in "sub"

    @property
    def is_pointer(self) -> bool | None:
        """Whether it takes an address; None where only the source could tell."""
        if not self.wide_integer:
            return False
        if self.c_type is None:
            return None
        if self.c_type.rstrip().endswith(("*", "&", "]")) or "*" in self.c_type:
            return True
        return False if self.value_dtype is not None else None

    @property
    def value_dtype(self) -> np.dtype[np.generic] | None:
        """The NumPy type of a scalar parameter where the source says it plainly."""
        return None if self.c_type is None else _C_DTYPES.get(plain_type(self.c_type))

    @property
    def element_dtype(self) -> np.dtype[np.generic] | None:
        """The NumPy type of what a pointer parameter points at; a vector type's component. None where unknown (void, structures, templates)."""
        if not self.is_pointer or self.c_type is None or self.c_type.count("*") != 1:
            return None
        base = plain_type(self.c_type.split("*")[0])
        if match := _VECTOR.fullmatch(base):
            return np.dtype(_VECTOR_BASES[match[1]])
        return _C_DTYPES.get(base)

    @property
    def element_size(self) -> int | None:
        """Bytes of one element that a pointer parameter points at, a vector counted whole; None where unknown."""
        dtype = self.element_dtype
        if dtype is None or self.c_type is None:
            return None
        match = _VECTOR.fullmatch(plain_type(self.c_type.split("*")[0]))
        return dtype.itemsize * (int(match[2]) if match else 1)

    def describe(self) -> str:
        """The type for a message: the source's words, else PTX's."""
        if self.c_type is not None:
            return f"`{self.c_type.strip()}`"
        if self.type is None:
            return f"a structure of {self.size} bytes"
        return f".{self.type.name}"


def plain_type(text: str) -> str:
    """A C++ type without qualifiers and spare blanks: `const unsigned  int` → `unsigned int`."""
    return " ".join(_QUALIFIERS.sub(" ", text).split())


def kernel_parameters(entry: str, source: LoadedSource, program: Program) -> list[KernelParameter]:
    """The parameters of a kernel: where PTX has them, named and typed as the source does."""
    declared, names = source.parameters(entry), source.parameter_names(entry)
    owners = None if source.python is None else source.python.owners
    return [
        KernelParameter(
            position,
            (names[position] if names else "") or parameter.name,
            parameter.name,
            parameter.type,
            parameter.size,
            parameter.align,
            parameter.offset,
            declared[position].type if declared else None,
            owners[position] if owners else None,
        )
        for position, parameter in enumerate(program.entries[entry].parameters)
    ]

"""Arguments for proof runs where nobody gives any: the extent's numbers, inputs full of random values, outputs that nobody wrote."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gridstride.errors import UsageError
from gridstride.runtime.contracts.bound import BoundContract
from gridstride.runtime.device import Device
from gridstride.runtime.expressions import Number
from gridstride.runtime.parameters import KernelParameter

_SEED = 20_260_101


def extent_scalars(bound: BoundContract, extent: Sequence[int]) -> dict[str, Number]:
    """The parameters that hold an extent. Raises UsageError where the contract's extent is arithmetic, which cannot be turned round."""
    found: dict[str, Number] = {}
    for text, n in zip(bound.contract.extent, extent, strict=True):
        if text in bound.positions:
            found[text] = n
        elif not text.isdecimal() or int(text) != n:
            raise UsageError(
                f"{bound.kernel}: the contract's extent {text!r} is no parameter, so its values for other sizes are not known; give the arguments for each size"
            )
    return found


def default_argument(bound: BoundContract, parameter: KernelParameter, scalars: Mapping[str, Number], device: Device) -> Any:
    """An argument for one parameter. Raises UsageError where its type or its value is anybody's guess."""
    name = parameter.name
    for known in (name, parameter.ptx_name):
        if known in scalars:
            # a parameter of 64 bits whose type nobody knows could be an address: this one is a number
            return np.uint64(scalars[known]) if parameter.is_pointer is None else scalars[known]
    if parameter.is_pointer:
        return _buffer(bound, parameter, scalars, device)
    dtype = parameter.value_dtype
    if dtype is not None and dtype.kind == "f":
        return 1.5
    what = "may be a number or an address" if parameter.is_pointer is None else f"is {parameter.describe()}"
    raise UsageError(f"{bound.kernel}: the parameter {name} {what}, and nothing says its value; give it for the proof")


def _buffer(bound: BoundContract, parameter: KernelParameter, scalars: Mapping[str, Number], device: Device) -> Any:
    name, dtype, size = parameter.name, parameter.element_dtype, parameter.element_size
    if dtype is None or size is None:
        raise UsageError(f"{bound.kernel}: what {name} ({parameter.describe()}) points at is not plain; give the buffer for the proof")
    known = name if name in bound.contract.buffers else parameter.ptx_name
    elements = bound.elements(known, scalars) or tuple(int(scalars[text]) if text in scalars else int(text) for text in bound.contract.extent)
    shape = tuple(reversed(elements))
    if size != dtype.itemsize:  # vectors: their components are elements of the array
        shape = (*shape[:-1], shape[-1] * (size // dtype.itemsize))
    array = device.empty(shape, dtype, name=name)
    if known in bound.contract.outputs:
        return array
    generator = np.random.default_rng(_SEED + parameter.position)
    count = math.prod(shape)
    values = generator.uniform(0, 1, count) if dtype.kind == "f" else generator.integers(0, 2 if dtype.kind == "b" else 100, count)
    return array.copy_from(values.astype(dtype).reshape(shape))

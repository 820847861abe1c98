"""What machine instructions say that the text hides: memory accesses, constants in disguise, strides.

The machine language is documented by NVIDIA only as a list of opcodes ("CUDA Binary Utilities", instruction set reference); what is
read here was checked against listings of known sources.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass

from gridstride.frontends.sass import SassInstruction, SassKernel

# Opcode → (state space, kind of access). A generic access goes where its address points.
_ACCESSES = {
    "LDG": ("global", "load"), "STG": ("global", "store"), "REDG": ("global", "atomic"), "ATOMG": ("global", "atomic"),
    "LDS": ("shared", "load"), "STS": ("shared", "store"), "ATOMS": ("shared", "atomic"),
    "LDL": ("local", "load"), "STL": ("local", "store"),
    "LD": ("generic", "load"), "ST": ("generic", "store"), "ATOM": ("generic", "atomic"), "RED": ("generic", "atomic"),
}  # fmt: skip
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32, "F64": 8, "F16x2": 4, "BF16x2": 4}


@dataclass(frozen=True, slots=True)
class MachineAccess:
    """`space` is "global", "shared", "local" or "generic"; `kind` "load", "store" or "atomic" (a reduction included); bytes a lane."""

    space: str
    kind: str
    bytes: int


def memory_access(instruction: SassInstruction) -> MachineAccess | None:
    """The access that an instruction makes; None where it makes none, as one that never runs (`@!PT`)."""
    found = _ACCESSES.get(instruction.head)
    if found is None or instruction.guard == "@!PT":
        return None
    widths = [_WIDTHS[modifier] for modifier in instruction.opcode.split(".")[1:] if modifier in _WIDTHS]
    return MachineAccess(*found, max(widths, default=4))


def half_pair_bits(high: str, low: str) -> int | None:
    """The 32 bits of a register that holds two half-precision numbers, written in decimal; None for a NaN, whose bits are not told.

    A compiler loads any integer so (`HFMA2.MMA R, -RZ, RZ, high, low` computes -0·0 + number in each half). Below 2,048 the low half is
    the integer times 2⁻²⁴: "2.384185791015625e-07" is 4.
    """
    try:
        return (_half(high) << 16) | _half(low)
    except ValueError:
        return None


def _half(text: str) -> int:
    word = text.strip().upper().lstrip("+")
    number = {"INF": float("inf"), "-INF": float("-inf")}.get(word)
    if number is None:
        number = float(word)
    if math.isnan(number):
        raise ValueError("a NaN")
    try:
        bits: int = struct.unpack("<H", struct.pack("<e", number))[0]
    except OverflowError as error:
        raise ValueError(text) from error
    return bits


_ZERO_TIMES_ZERO = re.compile(r"-?RZ(?:\.H0_H0|\.H1_H1)?$")
_REGISTER = re.compile(r"-?(U?R\d+)(?:\.reuse|\.64)*$")
_NUMBER = re.compile(r"-?(?:0x[0-9a-f]+|\d+)$")


def loaded_constant(instruction: SassInstruction) -> tuple[str, int] | None:
    """(register, bits) where an instruction does nothing but put a constant into a 32-bit register, openly or in disguise."""
    operands = _operands(instruction)
    if not operands or not re.fullmatch(r"U?R\d+", operands[0]):
        return None
    target, rest = operands[0], operands[1:]
    if instruction.head == "HFMA2" and len(rest) == 4 and all(_ZERO_TIMES_ZERO.match(o) for o in rest[:2]):
        bits = half_pair_bits(rest[2], rest[3])
        return None if bits is None else (target, bits)
    if instruction.opcode in ("MOV", "UMOV") and rest:
        value = _integer(rest[0])
    elif instruction.opcode.startswith("IMAD.MOV") and len(rest) == 3 and rest[0] == rest[1] == "RZ":
        value = _integer(rest[2])
    else:
        return None
    return None if value is None else (target, value & 0xFFFFFFFF)


def _operands(instruction: SassInstruction) -> list[str]:
    return [part.strip() for part in instruction.operands.split(",")] if instruction.operands else []


def _integer(text: str) -> int | None:
    if text in ("RZ", "URZ"):
        return 0
    return int(text, 0) if _NUMBER.match(text) else None


def _signed(bits: int) -> int:
    return bits - (1 << 32) if bits >> 31 else bits


def explanations(kernel: SassKernel) -> dict[int, str]:
    """By address, what an instruction's operands mean in plain numbers: the constant it loads, the stride it multiplies an index by.

    A multiplication in an address computation is the bytes between neighbouring elements as a thread index counts them: the stride. A
    register's constant is believed up to the next label, where other code may come in, or throughout if nothing else writes the register.
    """
    writers: dict[str, int] = {}
    for instruction in kernel.instructions:
        for register in _written(instruction):
            writers[register] = writers.get(register, 0) + 1
    notes: dict[int, str] = {}
    constants: dict[str, int] = {}
    # Registers that hold another one times a number: (that one, the number). Only within straight code.
    multiples: dict[str, tuple[str, int]] = {}
    for instruction in kernel.instructions:
        if instruction.address in kernel.labels:
            constants = {register: value for register, value in constants.items() if writers[register] == 1}
            multiples = {}
        product = _product(instruction, constants)
        loaded = loaded_constant(instruction)
        written = _written(instruction)
        for register in written:
            constants.pop(register, None)
        if loaded is not None:
            notes[instruction.address] = f"{loaded[0]} = {_shown(loaded[1])}"
            if not instruction.guard:
                constants[loaded[0]] = loaded[1]
        if product is not None:
            index, factor = multiples.get(product.index, (product.index, 1))
            factor *= product.factor
            notes[instruction.address] = f"{index} × {factor:,}{' bytes' if product.address else ''}"
        multiples = {r: known for r, known in multiples.items() if r not in written and known[0] not in written}
        if product is not None and product.alone and not instruction.guard and index not in written:
            multiples[written[0]] = (index, factor)
    return notes


@dataclass(frozen=True, slots=True)
class _Product:
    """`index` times `factor`; `address`: added to a base address; `alone`: the result is the product and nothing else."""

    index: str
    factor: int
    address: bool = False
    alone: bool = False


def _written(instruction: SassInstruction) -> list[str]:
    """Registers that an instruction writes, as far as they matter here: the first operand, and its neighbours where it is wide."""
    operands = _operands(instruction)
    match = re.fullmatch(r"(U?R)(\d+)", operands[0]) if operands else None
    access = memory_access(instruction)
    if match is None or (access is not None and access.kind == "store"):
        return []
    wide = 1
    if access is not None or instruction.head in ("LDC", "ULDC", "LDSM"):
        wide = max(1, max((_WIDTHS.get(modifier, 4) for modifier in instruction.opcode.split(".")), default=4) // 4)
    elif "WIDE" in instruction.opcode or instruction.head in ("CS2R", "DADD", "DMUL", "DFMA"):
        wide = 2
    return [f"{match.group(1)}{int(match.group(2)) + k}" for k in range(wide)]


def _product(instruction: SassInstruction, constants: dict[str, int]) -> _Product | None:
    """The multiplication in an address computation."""
    operands = _operands(instruction)
    if instruction.opcode.startswith(("IMAD.WIDE", "UIMAD.WIDE")) and len(operands) >= 3:
        for index, number in ((operands[1], operands[2]), (operands[2], operands[1])):
            value = _value(number, constants)
            if value is not None and _REGISTER.match(index) and _value(index, constants) is None:
                # Added to a base it is an address; a product alone is any number of 64 bits.
                based = len(operands) > 3 and operands[3] not in ("RZ", "URZ")
                return _Product(_bare(index), _signed(value & 0xFFFFFFFF), address=based)
        return None
    if instruction.opcode in ("LEA", "ULEA") and len(operands) >= 4:
        shift = next((_integer(o) for o in operands[3:] if _NUMBER.match(o)), None)
        indices = [o for o in operands[1:] if _REGISTER.match(o)]
        return _Product(_bare(indices[0]), 1 << shift) if indices and shift is not None and 0 < shift < 24 else None
    if instruction.opcode in ("SHF.L.U32", "USHF.L.U32", "IMAD.SHL.U32", "IMAD.SHL") and len(operands) >= 3:
        value = _integer(operands[2])
        if value is None or not 0 < value < 1 << 31 or not _REGISTER.match(operands[1]):
            return None
        factor = value if instruction.head == "IMAD" else 1 << value
        return _Product(_bare(operands[1]), factor, alone=True)
    return None


def _value(operand: str, constants: dict[str, int]) -> int | None:
    register = _REGISTER.match(operand)
    if register is not None:
        value = constants.get(register.group(1))
        return -value if value is not None and operand.startswith("-") else value
    return _integer(operand)


def _bare(register: str) -> str:
    return register.replace(".reuse", "")


def _shown(bits: int) -> str:
    """An integer; or the float that the bits are, where they are one that a person would write."""
    if 0x2000_0000 < bits < 0x5000_0000 or 0xA000_0000 < bits < 0xD000_0000:
        number = struct.unpack("<f", struct.pack("<I", bits))[0]
        return f"0x{bits:08x} ({number:.7g} as a float)"
    return f"{_signed(bits):,}"

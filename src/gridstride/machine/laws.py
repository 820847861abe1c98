"""The laws that bound speed-up, and the arithmetic intensities of textbook kernels. Exact for fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from gridstride.errors import UsageError

Number = int | float | Fraction


def _checked_fraction(serial: Number) -> Number:
    if not 0 <= serial <= 1:
        raise UsageError(f"the serial fraction is between 0 and 1, not {float(serial):g}")
    return serial


def _checked_processors(processors: Number) -> Number:
    if not processors >= 1:
        raise UsageError(f"there must be at least 1 processor, not {float(processors):g}")
    return processors


def amdahl(serial: Number, processors: Number) -> Number:
    """Amdahl's law: the speed-up of a problem of fixed size of which the part `serial` of the time runs on one processor alone."""
    serial, processors = _checked_fraction(serial), _checked_processors(processors)
    return 1 / (serial + (1 - serial) / processors)


def amdahl_limit(serial: Number) -> Number:
    """The speed-up that no number of processors exceeds: 1 ÷ the serial fraction. Raises UsageError where nothing is serial: no limit."""
    if _checked_fraction(serial) == 0:
        raise UsageError("where nothing is serial there is no limit")
    return 1 / serial


def gustafson(serial: Number, processors: Number) -> Number:
    """Gustafson's law: p + (1 - p)·s, the speed-up of a problem that grows with the p processors, `serial` s measured on all of them."""
    serial, processors = _checked_fraction(serial), _checked_processors(processors)
    return processors + (1 - processors) * serial


def vector_add_intensity(element_bytes: int = 4) -> Fraction:
    """FLOP/byte of c = a + b: one addition for two elements read and one written."""
    return Fraction(1, 3 * element_bytes)


def matrix_product_intensity(n: int, element_bytes: int = 4) -> Fraction:
    """FLOP/byte of an N×N matrix product that moves each matrix once: 2·N³ operations, 3·N² elements; N/6 for 4 bytes."""
    if n < 1:
        raise UsageError(f"a matrix has at least 1 row, not {n}")
    return Fraction(2 * n**3, 3 * n**2 * element_bytes)


def ridge(peak_tflops: Number, bandwidth_tbs: Number) -> Number:
    """The intensity, FLOP/byte, from which on arithmetic and not memory is the limit."""
    if not bandwidth_tbs > 0:
        raise UsageError("the bandwidth must be more than 0")
    return peak_tflops / bandwidth_tbs


@dataclass(frozen=True)
class GraphSaving:
    """`launches` kernels of `kernel_us` each, every launch costing the host `host_us`: launched one by one, or as one graph.

    The host's launches overlap with the kernels before them; a graph costs the host one launch.
    """

    launches: int
    kernel_us: float
    host_us: float

    def __post_init__(self) -> None:
        if self.launches < 1 or self.kernel_us < 0 or self.host_us < 0:
            raise UsageError("a graph has at least 1 launch, and no time is negative")

    @property
    def host_saved_us(self) -> float:
        """Host time that a replay saves."""
        return (self.launches - 1) * self.host_us

    @property
    def one_by_one_us(self) -> float:
        """Until the last kernel ends: the slower of host and device sets the pace."""
        return self.host_us + (self.launches - 1) * max(self.host_us, self.kernel_us) + self.kernel_us

    @property
    def as_graph_us(self) -> float:
        return self.host_us + self.launches * self.kernel_us

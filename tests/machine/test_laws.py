"""The laws and intensities: textbook figures, and their definitions by exact fractions."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridstride.errors import UsageError
from gridstride.machine import laws

FRACTIONS = st.fractions(min_value=0, max_value=1, max_denominator=1000)
PROCESSORS = st.integers(min_value=1, max_value=10**6)


def test_textbook_figures() -> None:
    assert laws.amdahl_limit(Fraction(2, 100)) == 50
    assert laws.amdahl_limit(0.02) == pytest.approx(50)
    assert laws.amdahl_limit(Fraction(10, 110)) == 11
    assert laws.vector_add_intensity() == Fraction(1, 12)
    assert laws.matrix_product_intensity(4096) == Fraction(4096, 6)
    assert round(float(laws.matrix_product_intensity(4096))) == 683
    assert round(laws.ridge(60, 3.35)) == 18
    assert laws.ridge(40, 1) == 40


@given(FRACTIONS, PROCESSORS)
def test_amdahl_is_old_time_over_new(serial: Fraction, processors: int) -> None:
    # 1 second, of which `serial` stays and the rest is divided.
    assert laws.amdahl(serial, processors) == 1 / (serial + Fraction(1 - serial, processors))


@given(FRACTIONS, PROCESSORS)
def test_gustafson_is_the_time_on_one_processor(serial: Fraction, processors: int) -> None:
    # 1 second on all: `serial` of it would take as long on one processor, the rest as often as there are processors.
    assert laws.gustafson(serial, processors) == serial + (1 - serial) * processors


def test_a_graph_of_500_launches() -> None:
    saving = laws.GraphSaving(500, 2, 5)
    assert saving.host_saved_us == pytest.approx(2500, rel=0.003)
    assert saving.one_by_one_us == 500 * 5 + 2
    assert saving.as_graph_us == 5 + 500 * 2
    # Kernels longer than a launch hide the host's time.
    assert laws.GraphSaving(10, 100, 5).one_by_one_us == 5 + 10 * 100


def test_laws_wrong() -> None:
    for call, message in (
        (lambda: laws.amdahl(1.5, 2), "the serial fraction is between 0 and 1, not 1.5"),
        (lambda: laws.gustafson(0.5, 0), "there must be at least 1 processor, not 0"),
        (lambda: laws.amdahl_limit(0), "where nothing is serial there is no limit"),
        (lambda: laws.matrix_product_intensity(0), "a matrix has at least 1 row, not 0"),
        (lambda: laws.ridge(1, 0), "the bandwidth must be more than 0"),
        (lambda: laws.GraphSaving(0, 1, 1), "a graph has at least 1 launch, and no time is negative"),
    ):
        with pytest.raises(UsageError) as caught:
            call()
        assert str(caught.value) == message

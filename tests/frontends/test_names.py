"""Plain names of entries. Mangled names were made by NVIDIA's compiler from the declarations in the comments."""

from __future__ import annotations

import pytest

from gridstride.errors import UsageError
from gridstride.frontends.names import KernelNames, demangle


@pytest.mark.parametrize(
    ("symbol", "short", "full"),
    [
        ("saxpy", "saxpy", "saxpy"),
        ("_Z5saxpyifPKfPf", "saxpy", "saxpy(int, float, const float*, float*)"),
        ("_Z1kv", "k", "k()"),
        ("_ZN2ns6kernelEPi", "ns::kernel", "ns::kernel(int*)"),
        ("_Z5scaleIfEvPT_S0_i", "scale<float>", "scale<float>(float*, float, int)"),
        ("_ZN2ns5scaleIfLi128EEEvPT_S1_i", "ns::scale<float, 128>", "ns::scale<float, 128>(float*, float, int)"),
        ("_Z1kILin3ELb1ELj7EEvv", "k<-3, true, 7>", "k<-3, true, 7>()"),
        ("_Z1kI6__halfEvPT_", "k<__half>", "k<__half>(__half*)"),
        ("_ZN36_GLOBAL__N__00000000_4_a_cu_fb46124e4anonEPi", "anon", "anon(int*)"),
        ("_Z1kIZ1jvEUlT_E_EvT_", "k", "k"),  # a lambda's type: the path alone can be read
    ],
)
def test_demangled(symbol: str, short: str, full: str) -> None:
    plain = demangle(symbol)
    assert (plain.short, plain.full) == (short, full)


ENTRIES = ("_Z3addPKfPf", "_Z3addPKiPi", "_ZN2ns5scaleIfLi128EEEvPT_S1_i", "_ZN2ns5scaleIdLi32EEEvPT_S1_i", "_Z4onlyPi", "plain")
NAMES = KernelNames(ENTRIES, {"&other<int>": "plain"}, "a.cu", frozenset({"scale", "lonely"}))


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("plain", "plain"),
        ("only", "_Z4onlyPi"),
        ("::only", "_Z4onlyPi"),
        ("_Z4onlyPi", "_Z4onlyPi"),
        ("add(const int*,int *)", "_Z3addPKiPi"),
        ("add(float const *, float*)", "_Z3addPKfPf"),
        ("scale<float,128>", "_ZN2ns5scaleIfLi128EEEvPT_S1_i"),
        ("ns::scale< double , 32u >", "_ZN2ns5scaleIdLi32EEEvPT_S1_i"),
        ("other<int>", "plain"),
    ],
)
def test_found(name: str, entry: str) -> None:
    assert NAMES.entry(name) == entry


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("add", "'add' means 2 kernels of a.cu; say which: add(const float*, float*), add(const int*, int*)"),
        ("scale", "'scale' means 2 kernels of a.cu; say which: ns::scale<float, 128>, ns::scale<double, 32>"),
        ("lonely", "'lonely' of a.cu is a template: name the instance to compile, as in 'lonely<float>'"),
        (
            "onyl",
            "there is no kernel 'onyl' in a.cu (did you mean 'only'?); "
            + "it has: add(const float*, float*), add(const int*, int*), ns::scale<float, 128>, ns::scale<double, 32>, only, plain",
        ),
    ],
)
def test_not_found_wrong(name: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        NAMES.entry(name)
    assert str(caught.value) == message


def test_nothing_to_find_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        KernelNames((), {}, "empty.cu").entry("k")
    assert str(caught.value) == "there is no kernel 'k' in empty.cu: it has no kernels at all"

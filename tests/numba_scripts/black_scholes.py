"""Option prices after Black and Scholes, as a kernel with a grid-stride loop and as a ufunc on the GPU."""

import math

import numpy as np
from numba import cuda, float64, vectorize

RISK_FREE = 0.02
VOLATILITY = 0.30


@cuda.jit(device=True)
def cnd(d):
    k = 1.0 / (1.0 + 0.2316419 * math.fabs(d))
    value = (
        0.3989422804014327
        * math.exp(-0.5 * d * d)
        * (k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429)))))
    )
    if d > 0:
        value = 1.0 - value
    return value


@cuda.jit("void(float64[:], float64[:], float64[:], float64[:], float64[:], float64, float64)")
def black_scholes(call, put, price, strike, years, rate, volatility):
    for i in range(cuda.grid(1), price.shape[0], cuda.gridsize(1)):
        s, x, t = price[i], strike[i], years[i]
        root = math.sqrt(t)
        d1 = (math.log(s / x) + (rate + 0.5 * volatility * volatility) * t) / (volatility * root)
        d2 = d1 - volatility * root
        discount = math.exp(-rate * t)
        call[i] = s * cnd(d1) - x * discount * cnd(d2)
        put[i] = x * discount * (1.0 - cnd(d2)) - s * (1.0 - cnd(d1))


@vectorize([float64(float64, float64, float64, float64)], target="cuda")
def parity(call, price, strike, years):
    """The put that call-put parity gives."""
    return call - price + strike * math.exp(-RISK_FREE * years)


def reference(price, strike, years):
    def normal(d):
        return 0.5 * np.vectorize(math.erfc)(-d / math.sqrt(2))

    d1 = (np.log(price / strike) + (RISK_FREE + 0.5 * VOLATILITY**2) * years) / (VOLATILITY * np.sqrt(years))
    d2 = d1 - VOLATILITY * np.sqrt(years)
    discount = np.exp(-RISK_FREE * years)
    return price * normal(d1) - strike * discount * normal(d2), strike * discount * normal(-d2) - price * normal(-d1)


def main():
    rng = np.random.default_rng(8)
    n = 2000
    price, strike, years = rng.uniform(5, 30, n), rng.uniform(1, 100, n), rng.uniform(0.25, 10, n)
    call, put = np.zeros(n), np.zeros(n)

    stream = cuda.stream()
    with cuda.pinned(price, strike, years, call, put), stream.auto_synchronize():
        d_call = cuda.device_array(n, stream=stream)
        d_put = cuda.device_array(n, stream=stream)
        inputs = [cuda.to_device(array, stream=stream) for array in (price, strike, years)]
        black_scholes[8, 128, stream](d_call, d_put, *inputs, RISK_FREE, VOLATILITY)
        d_call.copy_to_host(call, stream=stream)
        d_put.copy_to_host(put, stream=stream)

    wanted_call, wanted_put = reference(price, strike, years)
    # the polynomial for the normal distribution is good to 7.5e-8
    np.testing.assert_allclose(call, wanted_call, atol=1e-5)
    np.testing.assert_allclose(put, wanted_put, atol=1e-5)
    np.testing.assert_allclose(parity(call, price, strike, years), put, atol=1e-9)
    print("Black-Scholes: mean call", round(float(wanted_call.mean()), 2))


if __name__ == "__main__":
    main()

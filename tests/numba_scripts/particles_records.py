"""Particles in a structured array, in memory that the host and the device share: managed, mapped, and page-locked in place."""

import numpy as np
from numba import cuda

PARTICLE = np.dtype([("x", np.float32), ("v", np.float32), ("bounces", np.int32)], align=True)


@cuda.jit
def advance(particles, dt):
    i = cuda.grid(1)
    if i < particles.size:
        x = particles[i].x + particles[i].v * dt
        if x < 0 or x > 1:
            particles[i].v = -particles[i].v
            particles[i].bounces += 1
            x = min(max(x, np.float32(0)), np.float32(1))
        particles[i].x = x


@cuda.jit
def double(values):
    i = cuda.grid(1)
    if i < values.size:
        values[i] *= 2


def reference(particles, dt, steps):
    particles = particles.copy()
    for _ in range(steps):
        x = particles["x"] + particles["v"] * dt
        out = (x < 0) | (x > 1)
        particles["v"][out] *= -1
        particles["bounces"][out] += 1
        particles["x"] = np.clip(x, np.float32(0), np.float32(1))
    return particles


def main():
    rng = np.random.default_rng(16)
    particles = np.zeros(300, PARTICLE)
    particles["x"], particles["v"] = rng.random(300, dtype=np.float32), rng.standard_normal(300).astype(np.float32)
    dt = np.float32(0.125)
    wanted = reference(particles, dt, 10)

    d_particles = cuda.to_device(particles)
    for _ in range(10):
        advance[3, 128](d_particles, dt)
    found = d_particles.copy_to_host()
    assert np.array_equal(found["bounces"], wanted["bounces"])
    np.testing.assert_allclose(found["x"], wanted["x"], atol=1e-6)

    managed = cuda.managed_array(100, dtype=np.int64)
    managed[:] = np.arange(100)
    double[1, 128](managed)
    cuda.synchronize()
    assert np.array_equal(managed, 2 * np.arange(100))

    mapped = cuda.mapped_array(100, dtype=np.int64)
    mapped[:] = np.arange(100)
    double[1, 128](mapped)
    cuda.synchronize()
    assert np.array_equal(mapped, 2 * np.arange(100))

    stream = cuda.stream()
    plain = np.arange(100)
    with cuda.pinned(plain):
        d_plain = cuda.to_device(plain, stream=stream)
        double[1, 128, stream](d_plain)
        d_plain.copy_to_host(plain, stream=stream)
        stream.synchronize()
    assert np.array_equal(plain, 2 * np.arange(100))
    print("particles:", int(wanted["bounces"].sum()), "bounces")


if __name__ == "__main__":
    main()

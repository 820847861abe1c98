"""Forces between bodies, a tile of them in shared memory at a time; then a step of their motion."""

import math

import numpy as np
from numba import cuda, float32

TILE = 64
SOFTENING = np.float32(0.01)


@cuda.jit(device=True, inline="always")
def body_body(bx, by, bz, ox, oy, oz, mass):
    rx, ry, rz = ox - bx, oy - by, oz - bz
    distance = rx * rx + ry * ry + rz * rz + SOFTENING
    inverse = float32(1.0) / math.sqrt(distance)
    scale = mass * inverse * inverse * inverse
    return rx * scale, ry * scale, rz * scale


@cuda.jit
def accelerate(bodies, acceleration):
    shared = cuda.shared.array((TILE, 4), float32)
    i = cuda.grid(1)
    n = bodies.shape[0]
    ax = ay = az = float32(0.0)
    for tile in range((n + TILE - 1) // TILE):
        other = tile * TILE + cuda.threadIdx.x
        for k in range(4):
            shared[cuda.threadIdx.x, k] = bodies[other, k] if other < n else float32(0.0)
        cuda.syncthreads()
        if i < n:
            for j in range(TILE):
                dx, dy, dz = body_body(bodies[i, 0], bodies[i, 1], bodies[i, 2], shared[j, 0], shared[j, 1], shared[j, 2], shared[j, 3])
                ax += dx
                ay += dy
                az += dz
        cuda.syncthreads()
    if i < n:
        acceleration[i, 0] = ax
        acceleration[i, 1] = ay
        acceleration[i, 2] = az


@cuda.jit
def move(bodies, velocity, acceleration, dt):
    i = cuda.grid(1)
    if i < bodies.shape[0]:
        for k in range(3):
            velocity[i, k] += acceleration[i, k] * dt
            bodies[i, k] += velocity[i, k] * dt


def reference(bodies, velocity, dt, steps):
    bodies, velocity = bodies.astype(np.float64), velocity.astype(np.float64)
    for _ in range(steps):
        towards = bodies[None, :, :3] - bodies[:, None, :3]
        distance = (towards**2).sum(-1) + SOFTENING
        acceleration = (towards * (bodies[None, :, 3] / distance**1.5)[..., None]).sum(1)
        velocity += acceleration * dt
        bodies[:, :3] += velocity * dt
    return bodies


def main():
    rng = np.random.default_rng(3)
    n = 150
    bodies = rng.uniform(-1, 1, (n, 4)).astype(np.float32)
    bodies[:, 3] = rng.uniform(0.5, 1, n) / n
    velocity = np.zeros((n, 3), np.float32)
    dt = np.float32(0.01)
    wanted = reference(bodies, velocity, dt, 5)

    d_bodies, d_velocity = cuda.to_device(bodies), cuda.to_device(velocity)
    d_acceleration = cuda.device_array((n, 3), np.float32)
    blocks = (n + TILE - 1) // TILE
    for _ in range(5):
        accelerate[blocks, TILE](d_bodies, d_acceleration)
        move[blocks, TILE](d_bodies, d_velocity, d_acceleration, dt)

    np.testing.assert_allclose(d_bodies.copy_to_host(), wanted, rtol=1e-4, atol=1e-5)
    print("n-body:", n, "bodies moved")


if __name__ == "__main__":
    main()

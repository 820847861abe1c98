"""A ray tracer: spheres in a structured array, shadows, and a reflection."""

import math

import numpy as np
from numba import cuda

SPHERE = np.dtype([("x", "f8"), ("y", "f8"), ("z", "f8"), ("radius", "f8"), ("colour", "f8"), ("mirror", "f8")])
FAR = 1e20


@cuda.jit(device=True)
def hit(ox, oy, oz, dx, dy, dz, spheres):
    """The nearest sphere along a ray and how far it is; -1 for none."""
    nearest = FAR
    which = -1
    for k in range(spheres.shape[0]):
        s = spheres[k]
        lx, ly, lz = s.x - ox, s.y - oy, s.z - oz
        along = lx * dx + ly * dy + lz * dz
        off = lx * lx + ly * ly + lz * lz - along * along
        reach = s.radius * s.radius - off
        if reach > 0:
            t = along - math.sqrt(reach)
            if 1e-4 < t < nearest:
                nearest = t
                which = k
    return which, nearest


@cuda.jit
def render(spheres, light, image):
    px, py = cuda.grid(2)
    height, width = image.shape
    if px >= width or py >= height:
        return
    dx, dy, dz = (px + 0.5) / width - 0.5, (py + 0.5) / height - 0.5, 1.0
    length = math.sqrt(dx * dx + dy * dy + dz * dz)
    dx, dy, dz = dx / length, dy / length, dz / length
    ox = oy = oz = 0.0
    weight, value = 1.0, 0.0
    for _ in range(3):
        which, t = hit(ox, oy, oz, dx, dy, dz, spheres)
        if which < 0:
            value += weight * 0.1
            break
        s = spheres[which]
        ox, oy, oz = ox + t * dx, oy + t * dy, oz + t * dz
        nx, ny, nz = (ox - s.x) / s.radius, (oy - s.y) / s.radius, (oz - s.z) / s.radius
        shade = nx * light[0] + ny * light[1] + nz * light[2]
        blocked, _ = hit(ox, oy, oz, light[0], light[1], light[2], spheres)
        if blocked >= 0 or shade < 0:
            shade = 0.0
        value += weight * (1.0 - s.mirror) * s.colour * (0.2 + 0.8 * shade)
        weight *= s.mirror
        if weight == 0.0:
            break
        turn = 2.0 * (dx * nx + dy * ny + dz * nz)
        dx, dy, dz = dx - turn * nx, dy - turn * ny, dz - turn * nz
    image[py, px] = value


def reference(spheres, light, shape):
    def nearest(o, d):
        best, which = np.full(o.shape[0], FAR), np.full(o.shape[0], -1)
        for k, s in enumerate(spheres):
            towards = np.array([s["x"], s["y"], s["z"]]) - o
            along = (towards * d).sum(-1)
            reach = s["radius"] ** 2 - ((towards**2).sum(-1) - along**2)
            t = along - np.sqrt(np.maximum(reach, 0))
            better = (reach > 0) & (t > 1e-4) & (t < best)
            best[better], which[better] = t[better], k
        return which, best

    height, width = shape
    x, y = np.meshgrid((np.arange(width) + 0.5) / width - 0.5, (np.arange(height) + 0.5) / height - 0.5)
    d = np.stack([x.ravel(), y.ravel(), np.ones(x.size)], -1)
    d /= np.linalg.norm(d, axis=-1, keepdims=True)
    o, weight, value = np.zeros_like(d), np.ones(x.size), np.zeros(x.size)
    alive = np.ones(x.size, bool)
    for _ in range(3):
        which, t = nearest(o, d)
        value[alive & (which < 0)] += weight[alive & (which < 0)] * 0.1
        alive &= which >= 0
        s = spheres[np.maximum(which, 0)]
        o = np.where(alive[:, None], o + t[:, None] * d, o)
        n = (o - np.stack([s["x"], s["y"], s["z"]], -1)) / s["radius"][:, None]
        shade = n @ light
        blocked, _ = nearest(o, np.broadcast_to(light, o.shape))
        shade[(blocked >= 0) | (shade < 0)] = 0
        value += np.where(alive, weight * (1 - s["mirror"]) * s["colour"] * (0.2 + 0.8 * shade), 0)
        weight = np.where(alive, weight * s["mirror"], weight)
        alive &= weight != 0
        d = d - 2 * (d * n).sum(-1, keepdims=True) * n
    return value.reshape(shape)


def main():
    spheres = np.array(
        [
            (0.0, 0.0, 4.0, 1.0, 0.9, 0.3),
            (1.2, -0.4, 3.2, 0.4, 0.7, 0.0),
            (-1.1, 0.5, 3.5, 0.5, 0.5, 0.6),
            (0.0, 101.0, 5.0, 100.0, 0.4, 0.0),
        ],
        dtype=SPHERE,
    )
    light = np.array([0.5, -0.8, -0.4])
    light /= np.linalg.norm(light)
    image = np.zeros((60, 80), np.float64)

    render[(10, 8), (8, 8)](cuda.to_device(spheres), cuda.to_device(light), image)

    wanted = reference(spheres, light, image.shape)
    # a ray that only just grazes a sphere may hit it here and miss it there
    wrong = np.abs(image - wanted) > 1e-9
    assert wrong.mean() < 0.002, wrong.sum()
    print("ray tracer: brightest pixel", round(float(wanted.max()), 2))


if __name__ == "__main__":
    main()

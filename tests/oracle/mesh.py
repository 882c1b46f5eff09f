"""Float64 reference of a mesh: rasterization, texture, loss, stochastic gathering, by formulas."""

from __future__ import annotations

import numpy as np

from .pcg import bits_of

VERTEX, TEXEL = 256, 257  # what is drawn, in the random numbers' key


def signs(seed: int, step: int, count: int, draw: int) -> np.ndarray:
    """(count, 3) of -1 and 1."""
    return np.where(bits_of(seed, step, count, draw)[:, :3] >> np.uint32(31), 1.0, -1.0)


def barycentrics(vertices, faces, ids, w2c, K) -> tuple[np.ndarray, np.ndarray]:
    """(H, W, 3) perspective-correct weights and (H, W) depth where rays meet triangle ids - 1."""
    height, width = ids.shape
    y, x = np.mgrid[0:height, 0:width] + 0.5
    rays = np.stack([x, y, np.ones_like(x)], axis=-1) @ np.linalg.inv(K).T
    cam = vertices @ w2c[:3, :3].T + w2c[:3, 3]
    corners = cam[faces[np.maximum(ids, 1) - 1]]  # (H, W, corner, xyz)
    # the sum of weight times corner is the ray
    weights = np.linalg.solve(np.swapaxes(corners, -1, -2), rays[..., None])[..., 0]
    total = weights.sum(axis=-1)
    return weights / total[..., None], 1 / total


def rasterize(vertices, faces, w2c, K, width: int, height: int, near: float) -> tuple:
    """(H, W) 1 + the nearest triangle or 0, and how near weights in sight came to 0."""
    nearest, edge = np.full((2, height, width), np.inf)
    ids = np.zeros((height, width), int)
    for face in range(len(faces)):
        weights, depth = barycentrics(vertices, faces, np.full((height, width), face + 1), w2c, K)
        inside = (weights >= 0).all(axis=-1) & (depth >= near)
        edge = np.where(depth >= near, np.minimum(edge, np.abs(weights.min(axis=-1))), edge)
        better = inside & (depth < nearest)
        nearest, ids = np.where(better, depth, nearest), np.where(better, face + 1, ids)
    return ids, edge


def uv_at(uvs, uv_faces, ids, weights) -> np.ndarray:
    """(H, W, 2)."""
    return (uvs[uv_faces[np.maximum(ids, 1) - 1]] * weights[..., None]).sum(axis=-2)


def taps(uv, shape) -> tuple[np.ndarray, np.ndarray]:
    """(..., 4) texels of a texture (height, width) around places (..., 2), and bilinear weights."""
    height, width = shape
    at = np.clip(uv, 0, 1) * [width, height] - 0.5
    base = np.floor(at)
    f = at - base
    texels, weights = [], []
    for dy in (0, 1):
        for dx in (0, 1):
            column = np.clip(base[..., 0] + dx, 0, width - 1)
            row = np.clip(base[..., 1] + dy, 0, height - 1)
            texels.append((row * width + column).astype(int))
            shares = np.abs(f - [1 - dx, 1 - dy])
            weights.append(shares[..., 0] * shares[..., 1])
    return np.stack(texels, axis=-1), np.stack(weights, axis=-1)


def picture(texture, uv, covered) -> np.ndarray:
    """(H, W, 4) colour over black and coverage. texture: (height, width, 3)."""
    texels, weights = taps(uv, texture.shape[:2])
    colour = (texture.reshape(-1, 3)[texels] * weights[..., None]).sum(axis=-2)
    opaque = np.concatenate([colour, np.ones((*covered.shape, 1))], axis=-1)
    return np.where(covered[..., None], opaque, 0.0)


def loss(image, photo, alpha_weight: float) -> np.ndarray:
    """(H, W, 4) terms of every pixel."""
    return (image - photo) ** 2 * [1, 1, 1, alpha_weight]


def gathered(
    plus, minus, photo, texture, faces, texel_step, seed, step, vertices: int, alpha_weight: float
):
    """(V,) and (X, 3): differences of a pixel's loss, divided by the number of pixels, summed over
    the pixels that saw a vertex or a texel.

    plus, minus: (H, W, 4) of uv, depth, id. A set per pixel counts everything once.
    """
    height, width = photo.shape[:2]
    count = texture.shape[0] * texture.shape[1]
    move = texel_step * signs(seed, step, count, TEXEL).reshape(texture.shape)
    losses = []
    for s, side in ((1, plus), (-1, minus)):
        image = picture(texture + s * move, side[..., :2], side[..., 3] > 0)
        losses.append(loss(image, photo, alpha_weight))
    difference = (losses[0] - losses[1]) / (width * height)
    of_vertices, of_texels = np.zeros(vertices), np.zeros((count, 3))
    around = [taps(side[..., :2], texture.shape[:2])[0] for side in (plus, minus)]
    for y in range(height):
        for x in range(width):
            seen, texels = set(), set()
            for side, near in zip((plus, minus), around):
                if side[y, x, 3] > 0:
                    seen |= set(faces[int(side[y, x, 3]) - 1].tolist())
                    texels |= set(near[y, x].tolist())
            for v in seen:
                of_vertices[v] += difference[y, x].sum()
            for t in texels:
                of_texels[t] += difference[y, x, :3]
    return of_vertices, of_texels

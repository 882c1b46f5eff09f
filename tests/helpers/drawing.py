"""Scenes drawn by a rasterizer, and how far it is from the float64 oracle."""

import itertools

import numpy as np

from hardsplat.raster.renderer import Camera, Gaussians, Renderer
from hardsplat.tables.formats import FORMATS
from tests.helpers.goldens import SCENE_KEYS, random_scene, relative_l2, scene_of
from tests.oracle import render
from tests.oracle.render import ALPHA_MIN
from tests.oracle.splat import project

PARAMETERS = ("means", "quats", "scales", "opacities", "sh")
BACKGROUND = (0.2, 0.5, 0.8)


def splats_of(scene: dict) -> tuple[Gaussians, Camera]:
    gaussians = Gaussians(*(scene[name] for name in PARAMETERS))
    return gaussians, Camera(scene["w2c"], scene["K"], scene["width"], scene["height"])


def fresh_seed() -> int:
    """Another one every time. pytest shows it when the test fails."""
    seed = int(np.random.SeedSequence().entropy % 2**32)
    print(f"seed {seed}")
    return seed


def clear_scene(*args, seed=None, apart=2e-6, cut_off=0.0, lit: float | None = None, **options):
    """A random scene, with its `seed`: the first from `seed` (or a fresh one) that rounding does
    not change: depths `apart`, no fragment within `cut_off` of alpha = 1/255, no colour below
    `lit`."""
    for number in itertools.count(fresh_seed() if seed is None else seed):
        scene = random_scene(number, *args, **options)
        ahead = scene["w2c"][2]
        depth = np.sort(scene["means"].astype(np.float64) @ ahead[:3] + ahead[3])
        clear = np.diff(depth).min() > apart * depth[-1]
        clear = clear and not (cut_off and _near_the_cut_off(scene, cut_off))
        if clear and (lit is None or project(**scene_of(scene)).color.min() > lit):
            return scene | {"seed": number}
    raise AssertionError


def _near_the_cut_off(scene: dict, within: float) -> bool:
    p = project(**scene_of(scene))
    x, y = np.arange(scene["width"]) + 0.5, np.arange(scene["height"])[:, None] + 0.5
    seen = (values[p.visible] for values in (p.mean2d, p.conic, p.opacity))
    for mean, (A, B, C), opacity in zip(*seen):
        dx, dy = x - mean[0], y - mean[1]
        alpha = opacity * np.exp(-0.5 * (A * dx * dx + C * dy * dy) - B * dx * dy)
        if (np.abs(alpha / ALPHA_MIN - 1) < within).any():
            return True
    return False


def exact(g: Gaussians, camera: Camera, sh_degree: int | None = None, **how):
    """The oracle's frame of splats that are drawn otherwise than as a scene."""
    view = camera.w2c, camera.K, camera.width, camera.height
    degree = g.sh_degree if sh_degree is None else sh_degree
    return render(*(getattr(g, p) for p in PARAMETERS), *view, degree, **how)


_exact: dict = {}  # of the last scenes, which many variants draw


def exact_frame(scene: dict, **how) -> tuple:
    """Returns the oracle's frame and its gradients."""
    arrays = [np.asarray(scene[name]).tobytes() for name in (*SCENE_KEYS, "weight")]
    key = hash((*arrays, *map(repr, how.items())))
    if key not in _exact:
        if len(_exact) > 8:
            _exact.clear()
        frame = render(**scene_of(scene), **how)
        _exact[key] = frame, frame.backward(scene["weight"].astype(np.float64))
    return _exact[key]


def compare(renderer: Renderer, scene: dict, background=BACKGROUND, near=0.01, antialiased=False):
    """Returns the relative L2 of the image and of the gradients, by name, against the oracle."""
    gaussians, camera = splats_of(scene)
    image, T = renderer.forward(gaussians, camera, background=background, near=near)
    gradients = renderer.backward(scene["weight"])
    rows = renderer.raster.rows
    # Fixed-function blending has no early end.
    early = not hasattr(rows, "blending") or rows.blending.ordered
    how = dict(near=near, termination="after" if early else "none", antialiased=antialiased)
    frame, exact = exact_frame(scene, background=np.array(background), **how)
    # In unorm8 small gradients may vanish.
    coarse = getattr(rows, "state_format", None) == FORMATS["unorm8"]
    for name in PARAMETERS:  # a gradient that is missing altogether hides in an L2 norm
        sizes = (np.abs(g[name]).reshape(len(gaussians), -1).sum(1) for g in (gradients, exact))
        found, wanted = sizes
        lost = (found == 0) & (wanted > 1e-3 * np.abs(exact[name]).max(initial=0))
        assert coarse or not lost.any(), f"no gradient of {name}: {np.flatnonzero(lost)}"
    assert np.isfinite(image).all() and np.abs(T - frame.T).max() < 0.02
    errors = {name: relative_l2(gradients[name], exact[name]) for name in PARAMETERS}
    return relative_l2(image, frame.image), errors


def agrees(renderer: Renderer, scene: dict, limits=(1e-4, 1e-3), what: object = "", **how) -> None:
    """Asserts that image and worst gradient are the oracle's in relative L2, as of float32."""
    image, gradients = compare(renderer, scene, **how)
    found = f"{what}, seed {scene.get('seed')}: image {image}, {gradients}"
    assert image <= limits[0] and max(gradients.values()) <= limits[1], found

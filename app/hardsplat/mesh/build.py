"""`hardsplat mesh`: a result as a triangle mesh."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import check_free
from hardsplat.gpu.probe import open_device
from hardsplat.io.formats.frames import UPS, axis, upright
from hardsplat.io.meshes import Colored, MeshFormat, beside, format_of, write_mesh
from hardsplat.io.model import load_model
from hardsplat.mesh.field import BAND, BYTES, Field, blocks_near
from hardsplat.mesh.surface import (
    areas,
    closed_field,
    extract,
    is_closed,
    largest,
    mended,
    simplified,
)
from hardsplat.mesh.texture import baked, unwrapped
from hardsplat.mesh.views import DEPTHS, DepthView, SplatViews, colors_at
from hardsplat.model.camera import Camera
from hardsplat.model.framing import up_of
from hardsplat.raster.backends import BACKENDS
from hardsplat.raster.core.frame import frame_data
from hardsplat.render.painter import Painter
from hardsplat.results.edited import scene_of
from hardsplat.results.model import find_model, home_of
from hardsplat.settings.train import TrainConfig
from hardsplat.tables.pictures import BACKGROUNDS

NAME = "mesh.glb"
_ALIGNED = np.cos(np.radians(10))  # of the angle within which a model's axis points up
TRIANGLES = 200_000
MOST_TRIANGLES = 20_000_000
FARTHEST = 2.0  # of the median depth of all views; surfaces that are farther are left out
# bytes of the field: automatic voxels grow until it fits, given ones are refused
MOST_BYTES = 3 << 30
SIDES = 256, 8192  # texels of a texture
_SAMPLES = 20_000  # depths of a view that the median is taken from


@dataclass(frozen=True)
class WrittenMesh:
    """What was written. voxel: side, world units. bytes: of all files. left_out: small pieces."""

    path: Path
    vertices: int
    triangles: int
    voxel: float
    closed: bool
    bytes: int
    left_out: int
    seconds: float


@dataclass(frozen=True)
class Fusion:
    """How depth becomes a surface; see `mesh`."""

    voxel: float | None = None
    max_depth: float | None = None
    triangles: int = TRIANGLES
    pieces: int | None = None
    watertight: bool = False


def mesh(
    result: str | Path,
    output: str | Path | None = None,
    data_dir: str | Path | None = None,
    depth: str = "median",
    voxel: str | float = "auto",
    max_depth: float | None = None,
    triangles: int = TRIANGLES,
    pieces: int | None = None,
    texture_size: int | None = None,
    watertight: bool = False,
    up: str | None = None,
    device: str | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> WrittenMesh:
    """Fuses the depth that the training cameras see of a result to a triangle mesh, and colours it
    with what they see.

    output: .glb, .obj, .ply or .stl; default mesh.glb in the result folder. depth: of DEPTHS.
    voxel: side, world units; auto: what a pixel covers at the median depth. max_depth: world units,
    surfaces beyond are left out. triangles: most of them. pieces: how many are kept, the largest;
    default those with a hundredth of the largest's area. texture_size: texels a side, 0 for colours
    at vertices; default what a pixel of the photographs shows. watertight: what no camera saw is
    solid. up: world axis that points up, by which the file is turned, default the cameras', or
    "none": as in the result.

    Raises UserError for bad input.
    """
    started = time.perf_counter()
    fusion = Fusion(_voxel(voxel), max_depth, triangles, pieces, watertight)
    _check(fusion, depth, texture_size)
    file, config = find_model(result, data_dir, device)
    default = home_of(file) / NAME if Path(result).is_dir() else file.with_suffix(".glb")
    path = Path(output) if output else default
    kind = format_of(path)
    if texture_size and "texture" not in kind.colors:
        why = f"{path.suffix} has no texture; leave it out"
        raise UserError(f"--texture-size {texture_size}: {why}")
    if path.resolve() == file.resolve():
        raise UserError(f"{path}: is what the mesh is made of; name another file")
    for each in (path, *(beside(path) if texture_size != 0 else ())):
        check_free(each, overwrite)
    _check_packages()
    cameras, painter = opened(config, file)
    try:
        views = SplatViews(painter, cameras, depth, quiet)
        points, faces, voxel, left_out = surface_of(views, fusion)
        made = _colored(points, faces, voxel, views, kind, texture_size)
    finally:
        painter.destroy()
    turn = np.eye(3)
    if up != "none":
        turn = upright(kind.up).T @ upright(up or _up_of(cameras))
    written = write_mesh(path, replace(made, points=made.points @ turn.T))
    closed, seconds = is_closed(faces), time.perf_counter() - started
    done = WrittenMesh(path, len(points), len(faces), voxel, closed, written, left_out, seconds)
    _report(done)
    return done


def surface_of(
    views: Iterable[DepthView], fusion: Fusion
) -> tuple[np.ndarray, np.ndarray, float, int]:
    """Points (V, 3) and faces (F, 3) of what views see, the side of a voxel, and how many small
    pieces were left out. Raises UserError where there is no surface, or it does not fit."""
    median, pixel, places = _scale(views)
    voxel, farthest = fusion.voxel or pixel, fusion.max_depth or FARTHEST * median
    if fusion.voxel and voxel < pixel / 8:
        raise UserError(f"--voxel {voxel:g}: a pixel covers {pixel:.3g}; give at least an eighth")
    near = blocks_near(views, voxel, farthest)
    while len(near) * BYTES > MOST_BYTES:
        needs = f"takes {len(near) * BYTES / 2**30:.1f} GiB, at most {MOST_BYTES >> 30} are taken"
        if fusion.voxel:
            raise UserError(f"--voxel {voxel:g}: {needs}; give larger ones, or a --max-depth")
        voxel *= 1.25
        near = blocks_near(views, voxel, farthest)
    if not len(near):
        raise UserError(f"no view sees a surface nearer than {farthest:g} (--max-depth)")
    if fusion.watertight:
        field = closed_field(views, voxel, near)
    else:
        field = Field(voxel, near)
        field.fuse(views)
    points, faces, left_out = largest(*extract(field), fusion.pieces, places)
    if not len(faces):
        raise UserError(f"no surface was found with voxels of {voxel:g}; try another --voxel")
    points, faces = simplified(points, faces, fusion.triangles)
    if fusion.watertight:
        points, faces = mended(points, faces)
    return points, faces, voxel, left_out


def _scale(views: Iterable[DepthView]) -> tuple[float, float, np.ndarray]:
    """The median depth of all pixels, what a pixel covers there, and where the cameras stand, world
    units."""
    depths, pixels, places = [], [], []
    for camera, depth, _ in views:
        seen = depth[depth > 0]
        seen = seen[:: max(1, len(seen) // _SAMPLES)]
        depths.append(seen)
        places.append(camera.position)
        pixels.append(seen / np.sqrt(camera.K[0, 0] * camera.K[1, 1]))
    both = np.concatenate(depths), np.concatenate(pixels)
    if not len(both[0]):
        raise UserError("no view sees a surface: light passes everywhere")
    return float(np.median(both[0])), float(np.median(both[1])), np.array(places)


def _colored(
    points: np.ndarray,
    faces: np.ndarray,
    voxel: float,
    views: Iterable[DepthView],
    kind: MeshFormat,
    texture_size: int | None,
) -> Colored:
    slack = BAND * voxel
    if "texture" in kind.colors and texture_size != 0:
        side = texture_size or _side(float(areas(points, faces).sum()), voxel)
        cut = unwrapped(points, faces, side)
        return Colored(points, faces, None, cut, baked(cut, points, side, views, slack))
    if not kind.colors:
        return Colored(points, faces)
    import trimesh

    normals = trimesh.Trimesh(points, faces, process=False).vertex_normals
    return Colored(points, faces, colors_at(points, normals, views, slack))


def _side(area: float, voxel: float) -> int:
    """A power of two: texels of half a voxel, of which charts fill about two thirds."""
    side = 2 ** np.ceil(np.log2(np.sqrt(1.5 * area) / (0.5 * voxel)))
    return int(np.clip(side, SIDES[0], SIDES[1] // 2))


def _up_of(cameras: Sequence[Camera]) -> np.ndarray:
    """(3,) what the cameras have up; the world's axis next to that, as models are often aligned."""
    up = up_of(cameras)
    nearest = max(map(axis, UPS), key=lambda each: float(each @ up))
    return nearest if nearest @ up > _ALIGNED else up


def opened(config: TrainConfig, file: Path) -> tuple[Sequence[Camera], Painter]:
    """The training cameras, and what draws splats for them."""
    c = config.scene
    if c.data_dir is None:
        why = "nothing says which scene it shows, and depth is drawn from its cameras"
        raise UserError(f"{file}: {why}; add --data-dir SCENE")
    scene = scene_of(file, c)
    cameras = [scene.views[i].camera for i in scene.train]
    gaussians, backend = load_model(file, sky=False), BACKENDS["tiled"]
    frame = frame_data(gaussians.sh_degree, BACKGROUNDS[c.background], c.near_plane)
    options = backend.options.of(config.raster, config.gradient)
    gpu = open_device(config.run.device)
    width, height = (max(sides) for sides in zip(*((c.width, c.height) for c in cameras)))
    pictures = SplatViews.PICTURES
    return cameras, Painter(gpu, backend, options, gaussians, width, height, pictures, frame)


def _voxel(value: str | float) -> float | None:
    if value == "auto":
        return None
    try:
        return float(value)
    except ValueError:
        raise UserError(f"--voxel {value}: expected a number or auto") from None


def _check(fusion: Fusion, depth: str, texture_size: int | None) -> None:
    """Raises UserError for settings out of range."""
    if depth not in DEPTHS:
        raise UserError(f"--depth {depth}: expected {' or '.join(DEPTHS)}")
    for flag, value, low, high in (
        ("--voxel", fusion.voxel, 1e-12, 1e12),
        ("--max-depth", fusion.max_depth, 1e-12, 1e12),
        ("--triangles", fusion.triangles, 4, MOST_TRIANGLES),
        ("--pieces", fusion.pieces, 1, 1_000_000),
        ("--texture-size", texture_size or None, *SIDES),
    ):
        if value is not None and not low <= value <= high:
            also = " or 0" if flag == "--texture-size" else ""
            raise UserError(f"{flag} {value:g}: expected a number of {low:g} to {high:g}{also}")


def _check_packages() -> None:
    """Raises UserError for packages that are missing."""
    try:
        import fast_simplification  # noqa: F401
        import skimage.measure  # noqa: F401
        import xatlas  # noqa: F401
    except ImportError as error:
        raise UserError(f"mesh needs {error.name}: pip install 'hardsplat[mesh]'") from None


def _report(done: WrittenMesh) -> None:
    form = "closed" if done.closed else "open"
    left = f", {done.left_out:,} small pieces left out" if done.left_out else ""
    print(
        f"{done.path}: {done.triangles:,} triangles, {form}, {done.bytes / 1e6:.2f} MB{left}; "
        f"voxels of {done.voxel:.3g}; {done.seconds / 60:.1f} min"
    )
    print(f"open it in Blender: File > Import > {format_of(done.path).blender}")

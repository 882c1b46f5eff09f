"""A scene: views to train on and to hold out, and the points to start from. Modules of this folder
read the layouts of app/hardsplat/tables/layouts.py."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from operator import itemgetter
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import check_listed
from hardsplat.io.media.images import image_size
from hardsplat.io.media.panorama import FACES, Face, check_panorama, face_side, faces_of
from hardsplat.io.media.panorama import MODEL as PANORAMA
from hardsplat.io.scenes.colmap import model_elsewhere
from hardsplat.io.scenes.lens import Lens, intrinsics
from hardsplat.io.scenes.masks import FOLDERS, unread
from hardsplat.io.scenes.source import (
    COARSE,
    Posed,
    SceneSource,
    check_there,
    is_far,
    named,
    near_origin,
    usable,
    without_pose,
)
from hardsplat.io.scenes.transforms import is_central, is_usual
from hardsplat.io.scenes.views import ArrayView, View, by, left_out, size_of, training
from hardsplat.model.camera import Camera
from hardsplat.tables.layouts import A_SCENE, LAYOUTS, layouts_of

SMALLEST = 8  # px of the shorter side, below which nothing can be learnt from a photograph
# photographs for each camera of a model, on average, below which cameras are told apart by size
# alone
FEWEST_OF_A_CAMERA = 4
# times smaller or larger than its camera, from which a photograph was scaled rather than cut
LEAST_RESIZED = 1.2
# px of the longer side of the largest photograph, below which --data-factor is likely a mistake
SMALL = 200


@dataclass(frozen=True)
class Scene:
    """views: sorted by name. points: (N, 3) float64 world units, N = 0 where the scene has none;
    colors: (N, 3) uint8. train, test: indices into views.

    extent: world units, 1.1 times the largest distance of a training camera from the mean of them,
    as in 3DGS. notes: one line each for what View.load() does to the photographs, empty when
    nothing. excluded: names of photographs that are no views. origin: of these positions, in those
    of the scene's files.
    """

    name: str
    views: list[View]
    points: np.ndarray
    colors: np.ndarray
    train: list[int]
    test: list[int]
    extent: float
    notes: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def held_out(self) -> list[View]:
        return [self.views[i] for i in self.test]

    @classmethod
    def of_images(
        cls,
        cameras: Sequence[Camera],
        images: Sequence[np.ndarray],
        points: np.ndarray | None = None,
        colors: np.ndarray | None = None,
        names: Sequence[str] | None = None,
        test_every: int = 8,
        name: str = "scene",
    ) -> Scene:
        """A scene of photographs in memory, one camera each.

        images: (H, W, 3) uint8 of their cameras' sizes, or (H, W, 4) with straight alpha. points:
        (N, 3) world units to start from, colors: (N, 3) uint8; without them training starts from
        random splats. names: of the photographs, unique, in order; by default their numbers.
        test_every: hold out every n-th view, starting with the first; 0: none. Raises UserError for
        what does not fit together.
        """
        names = [f"{i:05d}" for i in range(len(cameras))] if names is None else list(names)
        if not len(cameras) == len(images) == len(names) or not names:
            what = f"{len(cameras)} cameras, {len(images)} images and {len(names)} names"
            wanted = "there must be as many of each, and one at least"
            raise UserError(f"{what} do not make a scene: {wanted}")
        if len(set(names)) < len(names):
            raise UserError("two photographs of the scene have one name")
        views: list[View] = []
        for label, camera, image in zip(names, cameras, images):
            image, (h, w) = np.asarray(image), (camera.height, camera.width)
            if image.dtype != np.uint8 or image.shape not in ((h, w, 3), (h, w, 4)):
                what = f"is {image.dtype} of shape {image.shape}"
                wanted = f"expected uint8 of ({h}, {w}, 3 or 4), its camera's size"
                raise UserError(f"photograph {label}: {what}, {wanted}")
            views.append(ArrayView(label, camera, Path(label), image=image))
        points = np.zeros((0, 3)) if points is None else np.asarray(points, np.float64)
        colors = np.full(points.shape, 128, np.uint8) if colors is None else np.asarray(colors)
        fits = points.shape[1:] == (3,) and (colors.shape, colors.dtype) == (points.shape, np.uint8)
        if not fits or not np.isfinite(points).all():
            what = f"points have shape {points.shape} and colors {colors.shape} of {colors.dtype}"
            raise UserError(f"{what}, expected (N, 3) finite numbers and (N, 3) uint8")
        test = list(range(0, len(views), test_every)) if test_every > 0 else []
        train, extent = training(views, test, name)
        return cls(name, views, points, colors, train, test, extent)


def load_scene(
    data_dir: str | Path,
    data_factor: int = 1,
    test_every: int = 8,
    mask_mode: str = "ignore",
    undistort: bool = True,
    exclude: Sequence[str] = (),
) -> Scene:
    """Opens a scene; photographs are only looked at for their size.

    data_factor: train on photographs this many times smaller, from images_<data_factor> or else by
    resampling those in images. test_every: hold out every n-th view by sorted name, starting with
    the first; 0 or less: none. A scene with a test split of its own keeps that. mask_mode: what
    becomes of pixels that masks leave out, a key of MODES in masks.py. undistort: photographs are
    made those of pinhole cameras; otherwise they stay as they are, and their cameras distort.
    exclude: names or patterns of photographs that are left out; the others are held out as before.
    Raises UserError for anything missing, damaged or contradictory.
    """
    root = Path(data_dir)
    if not root.exists():
        what = "scene folder not found; where it has moved, name it: --data-dir SCENE"
        raise UserError(f"{root}: {what}")
    check_listed(root)
    if data_factor < 1:
        raise UserError(f"--data-factor {data_factor}: must be 1 or more")
    source = near_origin(_read(root, data_factor))
    photographs = sorted(source.photographs, key=lambda posed: posed.name)
    numbers, without = _physical_cameras(photographs), named([p.name for p in photographs], exclude)
    check_there([p for p in photographs if p.name not in without])
    views: list[View] = []
    resized: list[tuple[Posed, tuple[int, int]]] = []
    for p, n in zip(photographs, numbers):
        if p.name in without:
            continue
        found, size = _sizes(p, data_factor)
        resized += [(p, found)] * (p.divisor == 1 and found != (p.lens.width, p.lens.height))
        new = _faces(p, found, size) or [_view(p, found, size, undistort)]
        views += [replace(view, number=n, mask_mode=mask_mode) for view in new]
    held_out = source.held_out
    if held_out is None:
        held_out = {p.name for p in photographs[::test_every]} if test_every > 0 else set()
    test = [i for i, view in enumerate(views) if view.group in held_out]
    train, extent = training(views, test, str(root))
    folder = next((root / name for name in FOLDERS if (root / name).is_dir()), None)
    if folder and not any(p.mask for p in photographs):
        first = f"{views[0].name} wants {Path(views[0].name).stem}.png"
        raise UserError(f"{folder}: no mask has the name of a photograph; {first}")
    told = [f"{len(without)} of {len(photographs)} photographs are excluded"] * bool(without)
    told += _resized_note(resized, len(photographs) - len(without))
    far = is_far([view.camera for view in views], COARSE)
    told += [f"{far}: splats are sharper near it"] * bool(far)
    good = usable(source.points)
    bad = f"{(~good).sum():,} of {len(good):,} points have a NaN or infinite position"
    told += [f"{bad} and are left out"] * (not good.all())
    told += unread(root, [p.name for p in photographs])
    told += without_pose(root, [p.path for p in photographs])
    notes = (*source.notes, *told, *_notes(views, data_factor, mask_mode))
    points, colors = source.points[good], source.colors[good]
    name, excluded = root.resolve().name, tuple(sorted(without))
    at = source.origin
    return Scene(name, views, points, colors, train, test, extent, notes, excluded, at)


def _read(root: Path, data_factor: int) -> SceneSource:
    layouts = layouts_of(root)
    if not layouts:
        what = f"no cameras are in it; a scene is {A_SCENE}"
        make = f"make a model from photographs: hardsplat sfm {shlex.quote(str(root))}"
        raise UserError(f"{root}: {what}; {model_elsewhere(root) or make}")
    first, *others = layouts
    source: SceneSource = import_module(f"hardsplat.io.scenes.{first}").read(root, data_factor)
    if not others:
        return source
    other = f"rename that to use {LAYOUTS[others[0]].has} instead"
    return replace(source, notes=(f"cameras are from {source.label}; {other}", *source.notes))


def _physical_cameras(photographs: Sequence[Posed]) -> list[int]:
    """Which camera took each photograph, counted from 0: those of the model; by the size of
    pictures where the model has one for almost every photograph."""
    keys = [(posed.lens.id, 0) for posed in photographs]
    if FEWEST_OF_A_CAMERA * len(set(keys)) > len(keys):
        keys = [(posed.lens.width, posed.lens.height) for posed in photographs]
    numbers = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return [numbers[key] for key in keys]


def _view(posed: Posed, found: tuple[int, int], size: tuple[int, int], undistort: bool) -> View:
    """found, size: of the file, and of the photograph to train on."""
    camera, path = posed.lens, posed.path
    pinhole = posed.pinhole.resized(*size)
    lens = Lens.of(camera, pinhole.K, *size)
    rim = None
    if lens and not undistort:
        rim = None if lens.field.whole else lens
        pinhole, lens = replace(pinhole, distortion=lens.distortion), None
    if lens:
        pinhole = Camera(pinhole.w2c, lens.pinhole_K(), *size)
    stored = found if found != size else None
    return View(posed.name, pinhole, path, stored, lens, posed.mask, original=camera, rim=rim)


def _faces(posed: Posed, found: tuple[int, int], size: tuple[int, int]) -> list[View]:
    """The views that a panorama is cut into, named after it; none of other photographs. See
    _view."""
    if posed.lens.model != PANORAMA:
        return []
    check_panorama(str(posed.path), posed.lens.width, posed.lens.height)
    name = posed.name
    if (side := face_side(size[0])) < SMALLEST:
        what = f"a panorama of {by(size)} pixels has views of {by((side, side))}, too small to use"
        raise UserError(f"{posed.path}: {what}; take one of 1000 px or more")
    return [
        View(f"{name}/{face.name}", camera, posed.path, found, face, posed.mask, group=name)
        for face, camera in faces_of(posed.pinhole, str(posed.path), *size)
    ]


def _sizes(posed: Posed, data_factor: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The size of a photograph's file, and the one to train on. Raises UserError where the file, or
    its mask, neither has its camera's size nor is all of it in another size."""
    camera, path, divisor = posed.lens, posed.path, posed.divisor
    full = camera.width, camera.height
    with left_out(posed.name):
        found = image_size(path)
    tolerance = 1 if divisor > 1 else 0  # tools round down-sampled sizes in different directions
    fits = all(abs(f - c / divisor) <= tolerance for f, c in zip(found, full))
    if not fits and (divisor > 1 or not _is_resized(found, full)):
        smaller = f", so {by(_divided(full, divisor))} in {path.parent.name}"
        expected = f"{by(full)}{smaller if divisor > 1 else ''}; {_advice(found, full)}"
        what = f"is {by(found)}, but its camera {camera.id} in the model is {expected}"
        raise UserError(f"{path}: {what}")
    size = _divided(found, data_factor // divisor)
    if min(size) < SMALLEST and size != full:
        what = f"leaves {by(size)} pixels of {posed.name} ({by(full)})"
        most = max(1, min(full) // SMALLEST)
        raise UserError(f"--data-factor {data_factor}: {what}; choose {most} or less")
    if posed.mask and (masks := image_size(posed.mask)) not in (full, found):
        raise UserError(f"{posed.mask}: is {by(masks)}, but its photograph is {by(found)}")
    return found, size


def _is_resized(found: tuple[int, int], full: tuple[int, int]) -> bool:
    """Whether pictures of these sizes show the same, one scaled; of nearly one size, one is rather
    cut out of the other."""
    times = full[0] / found[0]
    if 1 / LEAST_RESIZED < times < LEAST_RESIZED:
        return False
    return abs(found[1] - full[1] / times) * min(1, times) <= 1


def _resized_note(resized: Sequence[tuple[Posed, tuple[int, int]]], n: int) -> Iterator[str]:
    """A note where photographs have another size than their cameras. resized: those and their
    sizes; n: photographs of the scene."""
    if resized:
        (posed, found), lens = resized[0], resized[0][0].lens
        full = by((lens.width, lens.height))
        sizes = f"{posed.name} is {by(found)}, its camera in the model {full}"
        what = f"{len(resized)} of {n} photographs have another size than their cameras"
        yield f"{what}, which are resized to fit: {sizes}"


def _notes(views: Sequence[View], data_factor: int, mask_mode: str) -> Iterator[str]:
    """What the user may want to know of photographs as they are used, a line each."""
    n, mode = len(views), "ignored" if mask_mode == "ignore" else "transparent"
    if with_mask := len({view.group for view in views if view.mask is not None}):
        photographs = len({view.group for view in views})
        yield f"{with_mask} of {photographs} photographs have masks: black pixels are {mode}"
    largest = max((size_of(view) for view in views), key=max)
    if data_factor > 1 and max(largest) < SMALL:
        left = f"leaves photographs of {by(largest)} pixels"
        yield f"--data-factor {data_factor} {left}; a smaller factor shows more"
    yield from _unusual(views)
    if faces := [view for view in views if isinstance(view.lens, Face)]:
        count, size = len(faces) // len(FACES), by(size_of(faces[0]))
        yield f"{count} panoramas are cut into {len(FACES)} views of {size} each on load"
    resampled = [v for v in views if v.stored and not isinstance(v.lens, Face)]
    if resampled and (data_factor == 1 or len(resampled) < n):  # else it was asked for
        first = resampled[0]
        sizes = f"{first.name} from {by(first.stored)} to {by(size_of(first))}"
        yield f"{len(resampled)} of {n} photographs are down-sampled on load, {sizes}"
    if distorted := [(view.name, view.lens) for view in views if isinstance(view.lens, Lens)]:
        lens = f"{distorted[0][0]} by {distorted[0][1].label}"
        yield f"{len(distorted)} of {n} photographs are undistorted on load, {lens}"
    yield from _cut(views)


def _cut(views: Sequence[View]) -> Iterator[str]:
    """Notes where the rim of photographs is not used, by the lens that uses least of them."""
    lenses = {view.lens for view in views if isinstance(view.lens, Lens)}
    least, lens = min(((lens.left, lens) for lens in lenses), key=itemgetter(0), default=(1, None))
    if lens and least < 1:
        cut = f"{1 - least:.0%} of its photographs, their rim, are cut away"
        yield f"{lens.label} {lens.why_cut}: {cut}; --no-undistort keeps what can be drawn"
    shares = [(float((rim.seen() > 0).mean()), rim) for rim in {view.rim for view in views} if rim]
    if shares:
        least, lens = min(shares, key=itemgetter(0))
        rim = f"{1 - least:.0%} of its photographs, their rim, cannot be drawn and are ignored"
        yield f"{lens.label} {lens.why_cut}: {rim}"


def _unusual(views: Sequence[View]) -> Iterator[str]:
    """Notes where a principal point, or focal lengths, of a camera are not what is expected."""
    lenses = [view.original for view in views if view.original]
    n, cameras = len(views), [(lens, intrinsics(lens)) for lens in lenses]
    if off := [(c, K) for c, K in cameras if not is_central(K[:2, 2], c.width, c.height)]:
        lens, K = off[0]
        (x, y), of = K[:2, 2], f"{lens.width}x{lens.height}"
        what = f"the principal point of {len(off)} of {n} photographs is off the middle"
        yield f"{what}: camera {lens.id} at ({x:.0f}, {y:.0f}) of {of}"
    if strange := [(c, K) for c, K in cameras if not is_usual(K, c)]:
        lens, K = strange[0]
        what = f"the focal lengths of {len(strange)} of {n} photographs are those of no usual lens"
        of = f"{lens.width}x{lens.height}"
        yield f"{what}: camera {lens.id} has {K[0, 0]:.4g} and {K[1, 1]:.4g} px of {of}"


def _divided(size, divisor):
    return tuple(max(1, round(side / divisor)) for side in size)


def _advice(found, full):
    if found == full[::-1]:
        advice = "store its pixels as its camera saw them (EXIF orientation is ignored)"
        return f"the photograph is turned by 90 degrees; {advice}"
    return "use the photographs that the cameras were made from"

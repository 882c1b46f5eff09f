"""PSNR and SSIM of views, measured on the GPU: of splats that are drawn by their standard
properties and without the 2D filter, as any viewer draws them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import undone
from hardsplat.base.progress import Bar
from hardsplat.gpu.commands.recorder import Recorder, Recordings
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.queue import complete
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import allocate_all, destroy_all
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.io.formats.base import ahead
from hardsplat.io.media.images import over
from hardsplat.io.scenes.masks import count_kept
from hardsplat.io.scenes.views import View, load_images
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.core.frame import camera_data, finished, frame_data
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.rasterizer import Rasterizer, pairs_wanted
from hardsplat.settings.scene import SceneSettings
from hardsplat.step import loss
from hardsplat.step.photos import pack
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.pictures import BACKGROUNDS

Colored = Callable[[np.ndarray], np.ndarray]
_SEEN, _TARGET = "counts of the view", "target of the view"
_NUMBERS = ("loss_sums", "color_moments", _SEEN)  # that the host reads of a view
_MOMENTS = (10, 3)  # numbers of `color_moments` that a workgroup sums
_GROUPS = next(n for n in contract.BUFFERS["color_moments"].axes if isinstance(n, int))


@dataclass
class Measured:
    """A view as it was measured.

    target: (H, W, 4) as it was drawn, see raster.frame.finished; None where no picture was
    requested. source: the photograph as View.load() has it. fitted_psnr, fitted_ssim: after a fit
    of colours, where that was requested. psnr_antialiased, ssim_antialiased: of the same splats
    drawn with the 2D filter, where they were trained so. half_psnr: of the right half, after gains
    that fit the left one, where that was requested.
    """

    name: str
    psnr: float
    ssim: float
    target: np.ndarray | None
    source: np.ndarray
    fitted_psnr: float | None = None
    fitted_ssim: float | None = None
    psnr_antialiased: float | None = None
    ssim_antialiased: float | None = None
    half_psnr: float | None = None
    background: np.ndarray | tuple[float, ...] = (0.0, 0.0, 0.0)

    @property
    def image(self) -> np.ndarray | None:
        """(H, W, 3) float32, not clamped; None where it was not requested. Computed each time, in
        the calling thread."""
        return None if self.target is None else finished(self.target, self.background)[0]

    @property
    def photo(self) -> np.ndarray:
        """(H, W, 3) uint8, over the background. Computed each time."""
        return over(self.source, self.background)


@dataclass(frozen=True)
class Asked:
    """What is asked of a measurement of views.

    photos: of these views, where they have been read already. pictures: of all views, or else of
    the first alone, not their measures alone. cameras: instead of those of the views. fitted: also
    after a fit of colours, of images as their cameras made them: colors(number, image). gain: of
    that the PSNR alone, not clamped, which takes no further submission. halves: also half_psnr.
    """

    photos: Iterable[np.ndarray] | None = None
    pictures: bool = True
    cameras: Sequence[Camera] | None = None
    fitted: bool = False
    gain: bool = False
    colors: Callable[[int, np.ndarray], np.ndarray] | None = None
    halves: bool = False


class Evaluator:
    """Renders views with a rasterizer and measures them. Its own camera, frame and photograph leave
    a training run's alone. A view is one submission: what is read of it lies in host memory."""

    def __init__(self, raster: Rasterizer, pixels: int = 0):
        """pixels: of photographs that there is memory for, by default one that fills the canvas."""
        self.device, self.raster = raster.device, raster
        self.width, self.height = width, height = raster.width, raster.height
        loss.check_loss(self.device)
        sizes = {n: contract.itemsize(n) for n in ("camera", "frame", "color_map")}
        sizes["photos"] = 4 * (pixels or width * height)
        sizes["color_moments"] = _GROUPS * contract.itemsize("color_moments") * math.prod(_MOMENTS)
        sizes |= loss.metric_bytes(width, height) | {_SEEN: contract.itemsize("counts")}
        self._run = build_all(self.device, (*loss.METRIC_PASSES, *loss.FITTED_PASSES))
        # read once a view, so that a copy would take longer
        self._own = allocate_all(self.device, sizes, host=True)
        self._colored: Image | None = None  # made when it is asked for
        self._recorders: dict[str, Recorder] = {}
        self._begin()

    def _begin(self) -> None:
        """Forgets what was recorded with the rasterizer's buffers of before."""
        destroy_all(self._recorders)
        self._recorders.clear()
        self._drawn_from = self.raster.resources
        self.resources = {**self.raster.resources, **self._own}

    @property
    def _target(self) -> Image:
        target = self.raster.resources["target"]
        assert isinstance(target, Image)
        return target

    def _recorded(
        self, record: Callable[[Recorder], None], target: Image | None = None
    ) -> Recorder:
        """What is recorded once. target: instead of what was drawn."""
        name = f"{record.__name__} {target is not None}"
        if name not in self._recorders:
            own = {} if target is None else {"target": target}
            self._recorders[name] = Recorder(self.device, {**self.resources, **own})
            record(self._recorders[name])
            self._recorders[name].end()
        return self._recorders[name]

    def _record_view(self, recorder: Recorder) -> None:
        self.raster.record_forward(recorder)
        loss.record_metrics(recorder, self._run, self.width, self.height)
        self._record_moments(recorder)
        recorder.copy("counts", _SEEN)

    def _record_shown(self, recorder: Recorder) -> None:
        self._record_view(recorder)
        recorder.copy("target", _TARGET)

    def _record_moments(self, recorder: Recorder) -> None:
        threads = _GROUPS * contract.CONSTANTS["GROUP"]
        recorder.run(self._run["color moments"], threads=(threads,))

    def _record_fitted(self, recorder: Recorder) -> None:
        loss.record_metrics(recorder, self._run, self.width, self.height, fitted=True)

    def _draw(self, shown: bool) -> None:
        """Draws and measures, again where the frame has more pairs than lists hold. shown: what was
        drawn is copied to `_TARGET`, too."""
        if shown and _TARGET not in self._own:
            nbytes = 4 * self.width * self.height * self._target.texel.itemsize
            self._own |= allocate_all(self.device, {_TARGET: nbytes}, host=True)
            self._begin()
        elif self.raster.resources is not self._drawn_from:
            self._begin()
        record = self._record_shown if shown else self._record_view
        self._recorded(record).run_once()
        if self._makes_room(self._own[_SEEN]):
            self._begin()
            self._recorded(record).run_once()

    def _makes_room(self, counts: Buffer) -> bool:
        """Whether a frame had more pairs than lists held, and there is room for them now."""
        seen = counts.array(contract.dtype("Counts"))[0]
        return self.raster.reserve_pairs(pairs_wanted(seen), int(seen["checkpoints"]))

    def room(self, photo: np.ndarray) -> np.ndarray:
        """Memory for what is drawn of the view of a photograph. It is written to, which takes
        longer for fresh memory than the copy, and which any thread may do."""
        return np.full((*photo.shape[:2], 4), 0, self._target.texel)

    def _drawn(self, camera: Camera, room: np.ndarray | None) -> np.ndarray:
        """(H, W, 4) as it was drawn, in `room` if there is any."""
        texels = self._own[_TARGET].array(self._target.texel)
        texels = texels.reshape(self.height, self.width, 4)[: camera.height, : camera.width]
        if room is None:
            return texels.copy()
        np.copyto(room, texels)
        return room

    def measure(
        self,
        name: str,
        camera: Camera,
        photo: np.ndarray,
        frame: np.ndarray,
        asked: Asked = Asked(),
        colored: Colored | None = None,
        words: np.ndarray | None = None,
        room: np.ndarray | None = None,
    ) -> Measured:
        """frame: a contract Frame struct (SH degree, background, near plane). colored: what the
        camera that took the photograph does to an image, before a fit of colours. words, room:
        pack(photo), self.room(photo), where they are there."""
        self.resources["camera"].upload(camera_data(camera))
        self.resources["frame"].upload(frame)
        self.resources["photos"].upload(pack(photo) if words is None else words)
        fitted = asked.fitted or asked.gain
        self._draw(shown := bool(asked.pictures or (fitted and colored)))
        target = self._drawn(camera, room) if shown else None
        pixels, background = count_kept(photo), frame["background"]
        psnr, ssim = loss.read_metrics(self.resources, camera, pixels)
        measured = Measured(name, psnr, ssim, target, photo, background=background)
        if asked.halves:
            measured.half_psnr = _half_psnr(_moments(self._own))
        if fitted:
            again = None
            if colored and (image := measured.image) is not None:
                again = self._uploaded(colored(image))
                self._recorded(self._record_moments, again).run_once()
            measured.fitted_psnr = _fitted_psnr(moments := _moments(self._own))
        if asked.fitted:
            found, _ = _color_map(moments.sum(0))
            self._own["color_map"].upload(contract.struct("ColorMap", rows=found.T))
            self._recorded(self._record_fitted, again).run_once()
            both = loss.read_metrics(self.resources, camera, pixels)
            measured.fitted_psnr, measured.fitted_ssim = both
        return measured

    def _uploaded(self, image: np.ndarray) -> Image:
        """(H, W, 3) float32, over its background, as a target."""
        if self._colored is None:
            form = FORMATS["float32"].vk
            self._colored = Image(self.device, self.width, self.height, form, np.float32, "colored")
        texels = np.zeros((self.height, self.width, 4), np.float32)
        texels[: image.shape[0], : image.shape[1], :3] = image
        self._colored.upload(texels)
        return self._colored

    def destroy(self) -> None:
        destroy_all(self._recorders)
        if self._colored is not None:
            self._colored.destroy()
        destroy_all(self._own)


class RepeatedEvaluator(Evaluator):
    """Measures the same views again and again, many by one submission: their photographs, as
    View.load() has them, and cameras stay where the device reads them."""

    def __init__(self, raster: Rasterizer, views: Sequence[View], photos: Sequence[np.ndarray]):
        pixels = [photo.shape[0] * photo.shape[1] for photo in photos]
        super().__init__(raster, sum(pixels))
        self._views, room = list(zip(views, photos)), self._own["photos"].array(np.uint32)
        self._pixels = [count_kept(photo) for photo in photos]
        self._copied, self._copies = Recordings(self.device, self._own), []
        sizes, first = {name: self._own[name].nbytes for name in ("camera", *_NUMBERS)}, 0
        copied = lambda names: self._copied(partial(_copy, names))  # noqa: E731
        with undone(self.destroy):
            for i, (view, words) in enumerate(zip(views, ahead(photos, pack))):
                own = {f"{name} {i}": size for name, size in sizes.items()}
                self._own |= allocate_all(self.device, own, host=True)
                camera = camera_data(view.camera)
                room[first : first + pixels[i]] = words
                camera["photo"], first = first, first + pixels[i]
                self._own[f"camera {i}"].upload(camera)
                after = {name: f"{name} {i}" for name in _NUMBERS}
                self._copies.append((copied({f"camera {i}": "camera"}), copied(after)))
            self._begin()

    def measure_again(
        self, raster: Rasterizer, frame: np.ndarray, asked: Asked, most: int
    ) -> list[Measured]:
        """The views, without pictures and fits. raster: of the splats of now. most: views that are
        submitted together."""
        self.raster = raster
        self.resources["frame"].upload(frame)
        grown = [True]
        while any(grown):
            if raster.resources is not self._drawn_from:
                self._begin()
            view = self._recorded(self._record_view)
            parts = [part for before, after in self._copies for part in (before, view, after)]
            for at in range(0, len(parts), 3 * most):
                complete(self.device, *parts[at : at + 3 * most])
            grown = [self._makes_room(self._own[f"{_SEEN} {i}"]) for i in range(len(self._views))]
        return [self._read(i, asked) for i in range(len(self._views))]

    def _read(self, i: int, asked: Asked) -> Measured:
        (view, photo), own = self._views[i], {name: self._own[f"{name} {i}"] for name in _NUMBERS}
        psnr, ssim = loss.read_metrics(own, view.camera, self._pixels[i])
        measured, moments = Measured(view.name, psnr, ssim, None, photo), _moments(own)
        if asked.halves:
            measured.half_psnr = _half_psnr(moments)
        if asked.gain:
            measured.fitted_psnr = _fitted_psnr(moments)
        return measured

    def destroy(self) -> None:
        self._copied.destroy()
        super().destroy()


def _copy(names: Mapping[str, str], recorder: Recorder) -> None:
    for source, target in names.items():
        recorder.copy(source, target)


def evaluation_frame(settings: SceneSettings, sh_degree: int) -> np.ndarray:
    """The contract's Frame of a measurement."""
    return frame_data(sh_degree, BACKGROUNDS[settings.background], settings.near_plane)


def measure_all(
    evaluators: Sequence[Evaluator],
    views: Sequence[View],
    frame: np.ndarray,
    quiet: bool,
    asked: Asked = Asked(),
) -> Iterator[Measured]:
    """Views one by one. evaluators: one, and perhaps another of the same splats that draws them
    with the 2D filter. Their canvas must hold the largest view."""
    evaluator, *filtered = evaluators
    colors, photographs = asked.colors, asked.photos
    if photographs is None:
        photographs = load_images(views, progress=False)

    def prepared(photo: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        return photo, pack(photo), evaluator.room(photo) if asked.pictures else None

    packed = ahead(photographs, prepared)
    bar = Bar(views, desc="measuring", unit="view", leave=False, disable=quiet)
    for i, (view, (photo, words, room)) in enumerate(zip(bar, packed)):
        colored = partial(colors, view.number) if colors else None
        camera = asked.cameras[i] if asked.cameras else view.camera
        own = replace(asked, pictures=asked.pictures or i == 0)
        measured = evaluator.measure(view.name, camera, photo, frame, own, colored, words, room)
        for each in filtered:
            m = each.measure(view.name, camera, photo, frame, Asked(pictures=False), words=words)
            measured.psnr_antialiased, measured.ssim_antialiased = m.psnr, m.ssim
        yield measured


def as_splats(
    device: Device,
    gaussians: Gaussians,
    draws: Callable[[Parameters], Rasterizer],
    views: Sequence[View],
    settings: SceneSettings,
    photos: Iterable[np.ndarray] | None = None,
) -> dict[str, float]:
    """PSNR and SSIM by their names in an evaluation, of what other programs draw, which have splats
    alone. photos: see Asked. Raises OutOfMemory."""
    frame = evaluation_frame(settings, gaussians.sh_degree)
    with ExitStack() as stack:
        parameters = Parameters.of(device, gaussians)
        stack.callback(parameters.destroy)
        raster = draws(parameters)
        stack.callback(raster.destroy)
        evaluator = Evaluator(raster)
        stack.callback(evaluator.destroy)
        asked = Asked(photos, pictures=False)
        found = summary(measure_all([evaluator], views, frame, True, asked))
    return {f"{name}_as_splats": found[name] for name in ("psnr", "ssim")}


def summary(measured: Iterable[Measured]) -> dict:
    """Means and the table of views, as it goes into JSON; names are those of Measured, of what was
    measured. Keeps no pictures."""
    kinds = ("psnr", "ssim", "fitted_psnr", "fitted_ssim", "psnr_antialiased", "ssim_antialiased")
    views = []
    for m in measured:
        values = {kind: getattr(m, kind) for kind in kinds}
        views.append({"name": m.name, **{k: v for k, v in values.items() if v is not None}})
    names = [kind for kind in kinds if views and kind in views[0]]
    means = {name: float(np.mean([view[name] for view in views])) for name in names}
    return {**means, "views": views}


def _moments(resources: Mapping[str, Buffer]) -> np.ndarray:
    """(2, 10, 3) of the left and the right half."""
    moments = resources["color_moments"].download(np.float32)
    return moments.reshape(-1, 2, *_MOMENTS).sum(0, dtype=np.float64)


def _fitted_psnr(halves: np.ndarray) -> float:
    return -10 * math.log10(max(_color_map(halves.sum(0))[1], 1e-12))


def _color_map(moments: np.ndarray) -> tuple[np.ndarray, float]:
    """(4, 3): the affine map of colours that brings a render nearest to its photograph, by least
    squares; and the mean squared error that it leaves. moments: (10, 3) of the pixels of both."""
    s, pixels = moments[6], moments[9, 0]
    left, right = np.block([[moments[:3], s[:, None]], [s, pixels]]), moments[[3, 4, 5, 7]]
    found = np.linalg.lstsq(left, right, rcond=1e-10)[0]
    return found, float((moments[8] - (found * right).sum(0)).sum() / (3 * pixels))


def _half_psnr(halves: np.ndarray) -> float:
    """PSNR in dB of the right half of a render against its photograph, after gains of red, green
    and blue that fit the left half best. Where a half has no pixel, the whole image is both."""
    fit, test = halves if halves[:, 9, 0].all() else np.broadcast_to(halves.sum(0), halves.shape)
    products, squares = (slice(3, 6), slice(0, 3))
    gains = np.diag(fit[products]) / np.maximum(np.diag(fit[squares]), 1e-6)
    errors = test[8] - 2 * gains * np.diag(test[products]) + gains**2 * np.diag(test[squares])
    return -10 * math.log10(max(errors.sum() / (3 * test[9, 0]), 1e-10))

"""`hardsplat render`: stills and videos of a model, from held-out views or along a path."""

from __future__ import annotations

import logging
import os
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ImageColor  # names of colours

from hardsplat.base.errors import OutOfMemory, UserError, undone
from hardsplat.base.files import check_free, ensure_folder, written
from hardsplat.base.parallel import THREADS
from hardsplat.base.progress import Bar
from hardsplat.gpu.probe import open_device
from hardsplat.io.camera_path import read_camera_path
from hardsplat.io.media.images import save_png
from hardsplat.io.media.video import CODECS, VideoWriter
from hardsplat.io.model import load_model
from hardsplat.io.scenes.scene import Scene
from hardsplat.model.camera import Camera
from hardsplat.model.framing import spread
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.backends import BACKENDS, fastest
from hardsplat.raster.core.frame import frame_data
from hardsplat.render.painter import UNITS, Legend, Painter
from hardsplat.render.paths import AROUND, FPS, MOST_FRAMES, VIEWS, Framing, Shot, shots_of
from hardsplat.render.streaming import StreamedSplats, sample, tree_of
from hardsplat.results.edited import scene_of
from hardsplat.results.folder import run_of
from hardsplat.results.model import find_model
from hardsplat.settings.scene import SceneSettings
from hardsplat.settings.train import TrainConfig
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.pictures import BACKGROUNDS, PICTURES

log = logging.getLogger("hardsplat")
SAMPLES = 8  # frames that the ends of a palette are taken from
LIMITS = {"frames": (1, MOST_FRAMES), "fps": (0.01, 1000), "fov": (0.1, 179)}
LIMITS |= {"width": (1, 65536), "height": (1, 65536)}


@dataclass(frozen=True)
class RenderStyle:
    """What pictures show, and how; what is left out is as trained.

    mode: pictures of hardsplat.tables.pictures. With several modes each has files of its own, named
    after it. background: a colour by name or as #rrggbb, or transparent for stills.

    range: numbers with the first and last colour of depth or count. legend: whether these pictures
    have one.

    depth_raw: also float32 depth of every frame, (H, W) .npy, world units, 0 for nothing.
    """

    mode: Sequence[str] = ("image",)
    background: str | None = None
    sh_degree: int | None = None
    format: str | None = None
    rasterizer: str | None = None
    range: tuple[float, float] | None = None
    legend: bool = True
    depth_raw: bool = False


def render(
    model: str | Path,
    framing: Framing | None = None,
    look: RenderStyle | None = None,
    output: str | Path | None = None,
    data_dir: str | Path | None = None,
    data_factor: int | None = None,
    device: str | None = None,
    max_splats: int | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> list[Path]:
    """Draws every frame of a path in every mode and writes them to `output`: a folder of PNG, or a
    video by its extension. Returns what was written.

    max_splats: of levels of detail, and of a joined scene in tiles, the most splats of a picture;
    by default what the device holds. Raises UserError for bad input, before anything is drawn, and
    for what cannot be written.
    """
    framing, look = framing or Framing(), look or RenderStyle()
    for name, (low, high) in LIMITS.items():
        value = getattr(framing, name)
        if value is not None and not low <= value <= high:
            raise UserError(f"--{name} {value}: expected a number of {low} to {high}")
    path, depth_raw = framing.path, look.depth_raw
    modes = _modes(look)
    file, config = find_model(model, data_dir, device)
    config = config if data_factor is None else config.changed(data_factor=data_factor)
    # of the rest only what changes the picture: the variants may be those of another device
    drawn_by = TrainConfig.of(
        rasterizer=_rasterizer(modes, look.rasterizer, config.raster.rasterizer),
        format=_format(modes, look, config.raster.hardware.format),
        antialiased=config.raster.antialiased,
    )
    color, transparent = _background(look.background, config.scene.background)
    keys = None
    if path not in (*VIEWS, *AROUND):
        if not Path(path).is_file():
            known = ", ".join((*VIEWS, *AROUND))
            raise UserError(f"--path {path}: neither a file nor one of {known}")
        keys = read_camera_path(path)
    out = _output(output, file, path, transparent, depth_raw)
    scene = _scene(config.scene, path, file)
    gpu = open_device(config.run.device)
    tree = tree_of(file, max_splats, gpu)
    near = config.scene.near_plane
    streamed = StreamedSplats(tree, gpu, near, max_splats) if tree else None
    gaussians = streamed or load_model(file, sky=look.background is None)
    degree = gaussians.sh_degree if look.sh_degree is None else look.sh_degree
    if not 0 <= degree <= gaussians.sh_degree:
        expected = f"expected a degree of 0 to {gaussians.sh_degree}, which {file} has"
        raise UserError(f"--sh-degree {look.sh_degree}: {expected}")
    where = gaussians if isinstance(gaussians, Gaussians) else sample(gaussians.tree)
    shots = shots_of(framing, keys, scene, where)
    sizes = {(s.camera.width, s.camera.height) for s in shots}
    if is_video(out) and len(sizes) > 1:
        what = f"the views have {len(sizes)} different sizes, a video has one"
        raise UserError(f"{out}: {what}; add --width and --height")
    names = [n for n in modes if n in look.mode]
    for each in files_of(out, names, [s.name for s in shots], depth_raw):
        check_free(each, overwrite)
    width, height = max(w for w, _ in sizes), max(h for _, h in sizes)
    frame = frame_data(degree, color, near)
    backend = BACKENDS[fastest(gpu, drawn_by.raster, drawn_by.gradient)]
    if max(width, height) > gpu.max_image:
        most = f"larger than images of {gpu.name} may be ({gpu.max_image} a side)"
        raise OutOfMemory(f"{width}x{height} is {most}", "pixels")
    options = backend.options.of(drawn_by.raster, drawn_by.gradient)
    painter = Painter(gpu, backend, options, gaussians, width, height, modes, frame, transparent)
    legends = {}
    try:
        for name in names:
            if name in UNITS:
                span = look.range or _span(painter, name, shots)
                painter.span(name, *span)
                legends[name] = {size: Legend(name, span, *size) for size in sizes}
        pace = framing.fps or (keys.fps if keys else None) or FPS
        writer = PictureWriter(out, names, transparent, shots[0].camera, pace)
        _draw(painter, shots, writer, depth_raw, quiet, legends if look.legend else {})
        if said := [next(iter(of_sizes.values())).text for of_sizes in legends.values()]:
            others = "" if look.range else " (--range LOW HIGH chooses others)"
            print(f"colours: {', '.join(said)}{others}")
    finally:
        painter.destroy()
        if streamed:
            streamed.close()
    return writer.written()


def _draw(
    painter: Painter,
    shots: list[Shot],
    writer: PictureWriter,
    depth_raw: bool,
    quiet: bool,
    legends: dict[str, dict],
) -> None:
    """Every shot in every mode. After an interrupt the frames up to there are written. legends: by
    mode and size of the picture."""
    where, done = ", ".join(map(str, writer.written())), 0
    try:
        with writer:
            for shot in Bar(shots, desc="rendering", unit="frame", disable=quiet):
                camera, size = shot.camera, (shot.camera.width, shot.camera.height)
                for name in painter.pictures:
                    image = painter.draw(name, camera)
                    if name in writer.modes:
                        legend = legends.get(name, {}).get(size)
                        writer.picture(shot.name, name, legend.put_on(image) if legend else image)
                    if depth_raw and name == "depth":
                        writer.numbers(shot.name, painter.values(name, camera, drawn=True))
                done += 1
    except KeyboardInterrupt:
        log.warning("stopped: %d of %d frames are in %s", done, len(shots), where)
        raise
    print(f"{done} frame{'s' * (done > 1)} of {painter.width}x{painter.height} in {where}")


def _modes(look: RenderStyle) -> list[str]:
    """What is drawn: the modes, each once, and depth where its numbers are wanted."""
    range = look.range
    for name in look.mode:
        if name not in PICTURES:
            names = ", ".join(PICTURES)
            raise UserError(f"--mode {name}: there is no such one; choose from {names}")
    modes = list(dict.fromkeys([*look.mode, *(["depth"] if look.depth_raw else [])]))
    ranged = [name for name in modes if name in UNITS]
    if range and (len(ranged) != 1 or not (np.isfinite(range).all() and range[0] < range[1])):
        what = f"one --mode with a palette, not {' and '.join(ranged)}"
        if len(ranged) == 1:
            what = "LOW below HIGH, both finite"
        elif not ranged:
            what = "a --mode with a palette, depth or count"
        raise UserError(f"--range {range[0]:g} {range[1]:g}: expected {what}")
    return modes


def _rasterizer(modes: list[str], wanted: str | None, configured: str) -> str:
    """One that draws every mode: the one asked for, else that of the settings where it can."""
    ordered = [name for name in modes if PICTURES[name].in_order]
    if ordered and wanted == "hardware":
        why = f"--mode {ordered[0]} needs splats drawn front to back"
        raise UserError(f"--rasterizer hardware: {why}; use --rasterizer tiled, or leave it out")
    return wanted or ("tiled" if ordered else configured)


def _format(modes: list[str], look: RenderStyle, configured: str) -> str:
    """A target format that holds every mode: the one asked for, else what the pickiest likes best,
    else that of the settings."""
    wanted = look.format
    for name in modes:
        if wanted and wanted not in PICTURES[name].formats:
            use = f"use {' or '.join(PICTURES[name].formats)}, or leave it out"
            asked = f"--mode {name}" if name in look.mode else "--depth-raw"
            raise UserError(f"--format {wanted} cannot hold {asked}; {use}")
    pickiest = min((PICTURES[name].formats for name in modes), key=len)
    return wanted or (configured if len(pickiest) == len(FORMATS) else pickiest[0])


def _background(wanted: str | None, trained: str) -> tuple[tuple[float, ...], bool]:
    """Colour in 0..1, and whether there is none."""
    if wanted is None:
        return BACKGROUNDS[trained], False
    if wanted == "transparent":
        return BACKGROUNDS["black"], True
    try:
        return tuple(c / 255 for c in ImageColor.getrgb(wanted)[:3]), False
    except ValueError:
        expected = "expected a colour by name or as #rrggbb, or transparent"
        raise UserError(f"--background {wanted}: {expected}") from None


def _output(output, file: Path, path: str, transparent: bool, depth_raw: bool) -> Path:
    """Where to write; UserError where that is not possible."""
    name = Path(path).stem if path not in (*VIEWS, *AROUND) else path
    stem = name if file.name == "splats.ply" else f"{file.stem}_{name}"
    stills = transparent or depth_raw or path in VIEWS
    out = Path(output) if output else run_of(file) / (stem if stills else f"{stem}.mp4")
    if out.suffix and not is_video(out) and not out.is_dir():
        known = f"an ending of {', '.join(CODECS)}, or a folder for PNG, without ending"
        raise UserError(f"--output {out}: expected {known}")
    if is_video(out) and (transparent or depth_raw):
        what = "--background transparent" if transparent else "--depth-raw"
        raise UserError(f"--output {out}: {what} is for stills; give a folder, without ending")
    folder = out.parent if is_video(out) else out
    try:
        ensure_folder(folder)
        tempfile.TemporaryFile(dir=folder).close()
        if is_video(out) and out.exists() and (out.is_dir() or not os.access(out, os.W_OK)):
            raise PermissionError(None, None)
    except OSError as error:
        why = f": {error.strerror}" if error.strerror else ""
        raise UserError(f"--output {out}: cannot be written{why}; choose another") from None
    return out


def _scene(given: SceneSettings, path: str, file: Path) -> Scene | None:
    """The scene where its cameras are wanted; an orbit does without."""
    if path not in (*VIEWS, *AROUND):
        return None
    if given.data_dir is None or (path == "orbit" and not given.data_dir.is_dir()):
        if path != "orbit":
            why = f"nothing says which scene it shows, and --path {path} is of its cameras"
            raise UserError(f"{file}: {why}; add --data-dir SCENE, or use --path orbit")
        if given.data_dir:
            what = "%s is not there: the orbit is around the splats, without the scene's cameras"
            log.info(what, given.data_dir)
        return None
    scene = scene_of(file, given)
    if path == "held-out" and not scene.test:
        why = f"no view is held out (--test-every {given.test_every}); use --path train"
        raise UserError(f"{given.data_dir}: {why}")
    return scene


def _span(painter: Painter, picture: str, shots: list[Shot]) -> tuple[float, float]:
    """The numbers between which nearly all pixels of a few frames are; counts begin at 0."""
    cameras = [shots[i].camera for i in spread(len(shots), SAMPLES)]
    values = np.concatenate([painter.values(picture, camera).ravel() for camera in cameras])
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return 0.0, 1.0
    if picture == "count":
        return 0.0, float(np.percentile(values, 99.9))
    low, high = np.percentile(values, [1, 99]).tolist()
    return low, high


AHEAD = 4  # frames a thread that may wait to be written


def is_video(path: Path) -> bool:
    return path.suffix.lower() in CODECS


def files_of(out: Path, modes: Sequence[str], names: Sequence[str], numbers: bool) -> list[Path]:
    """What a writer writes of frames by name. numbers: depth too."""
    if is_video(out):
        return [_video(out, mode, modes) for mode in modes]
    stills = [_still(out, name, mode, modes) for name in names for mode in modes]
    return [*stills, *(_numbers(out, name) for name in names if numbers)]


def _video(path: Path, mode: str, modes: Sequence[str]) -> Path:
    """`path`, or where there are several modes the same with the mode's name before the ending."""
    return path if len(modes) == 1 else path.with_stem(f"{path.stem}_{mode}")


def _still(folder: Path, name: str, mode: str, modes: Sequence[str]) -> Path:
    """NAME.png, or where there are several modes NAME.MODE.png."""
    return folder / f"{name}{f'.{mode}' if len(modes) > 1 else ''}.png"


def _numbers(folder: Path, name: str) -> Path:
    return folder / f"{name}.depth.npy"


class PictureWriter:
    """Writes pictures in threads: PNG into a folder, or a video a mode, whose frames are in order.
    What a thread raises comes out of the next call, or of the end.

    camera: of the size of videos. fps: of these, frames a second.
    """

    def __init__(
        self, out: Path, modes: Sequence[str], transparent: bool, camera: Camera, fps: float
    ):
        self.out, self.modes, self.transparent = out, modes, transparent
        self._writers: dict[str, VideoWriter] = {}
        with undone(self._close):
            for mode in modes if is_video(out) else ():
                file = _video(out, mode, modes)
                self._writers[mode] = VideoWriter(file, camera.width, camera.height, fps)
        workers = 1 if self._writers else THREADS
        self._pool, self._most = ThreadPoolExecutor(workers), AHEAD * workers
        self._pending: deque[Future] = deque()

    def picture(self, name: str, mode: str, image: np.ndarray) -> None:
        """name: of the frame. image: (H, W, 4) uint8."""
        pixels = image if self.transparent else image[..., :3]
        if writer := self._writers.get(mode):
            self._later(writer.write, pixels)
        else:
            self._later(save_png, _still(self.out, name, mode, self.modes), pixels)

    def numbers(self, name: str, values: np.ndarray) -> None:
        self._later(_save_npy, _numbers(self.out, name), values)

    def written(self) -> list[Path]:
        """The videos, or the folder."""
        return [writer.path for writer in self._writers.values()] or [self.out]

    def _later(self, job: Callable[..., None], *given: Any) -> None:
        while len(self._pending) >= self._most or (self._pending and self._pending[0].done()):
            self._pending.popleft().result()
        self._pending.append(self._pool.submit(job, *given))

    def __enter__(self) -> PictureWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._pool.shutdown()  # waits for all
        failed = [e for job in self._pending if (e := job.exception())]
        for e in (*failed, *self._close()):
            if kind is None:
                raise e

    def _close(self) -> list[UserError]:
        failed = []
        for writer in self._writers.values():
            try:
                writer.close()
            except UserError as error:
                failed.append(error)
        return failed


def _save_npy(path: Path, values: np.ndarray) -> None:
    with written(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, values)

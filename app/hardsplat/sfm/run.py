"""`hardsplat sfm`: photographs or a video in; a scene with a COLMAP model out."""

from __future__ import annotations

import shlex
import shutil
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.base.files import changed_at, replacing, replacing_folder, write_json
from hardsplat.base.progress import Bar
from hardsplat.io.media.panorama import is_whole
from hardsplat.io.scenes.masks import FOLDER, Masks
from hardsplat.io.scenes.source import WORK
from hardsplat.sfm.colmap.outcome import AGREES, SHEET, Outcome
from hardsplat.sfm.job.config import SfmConfig, make_plan
from hardsplat.sfm.job.photographs import (
    PhotographFolder,
    find_photographs,
    image_folder,
    is_video,
    listed,
)
from hardsplat.sfm.job.state import State, digests, fingerprint
from hardsplat.sfm.job.video import FRAME, extract_frames, says_panorama
from hardsplat.sfm.process import StageProgress, require_pycolmap, work

REPORT = "report.json"
_LISTED = 10  # photographs without a pose that are named on the terminal
_FEW = 15  # photographs with which splats are seldom good


def sfm(config: SfmConfig) -> Outcome:
    """Finds where each photograph was taken from. What an earlier run with the same settings did is
    not done again.

    Writes SCENE/sparse/0, see scene_of, and SCENE/sfm. Raises UserError for bad input,
    KeyboardInterrupt when stopped: the same call then continues.
    """
    data, progress = config.data, StageProgress(config.quiet)
    if data is None:
        what = "a folder of photographs or a video"
        raise UserError(f"no photographs given: hardsplat sfm INPUT, {what}")
    if not data.exists():
        raise UserError(f"{data}: not found; give a folder of photographs, or a video")
    if not data.is_dir() and not is_video(data):
        raise UserError(f"{data}: neither a folder nor a video (.mp4, .mov, .mkv, .webm, ...)")
    require_pycolmap()
    scene, video = scene_of(data, config.out), not data.is_dir()
    folder, model = scene / WORK, scene / "sparse" / "0"
    copied = not video and scene.resolve() != data.resolve()
    state, mode = State(folder), config.camera_mode
    mode = "single" if video and mode == "auto" else mode

    def find(where: Path) -> PhotographFolder:
        return find_photographs(where, mode, config.panorama, config.exclude)

    try:
        if not video:  # or an error, before anything is written
            photographs = find(data)
        _check_model(scene, state, config.overwrite)
        if video:
            _take_frames(data, scene, state, config, progress)
        elif copied:
            _copy(data, scene)
        if video:
            photographs = find(scene)
        elif copied:
            refused, photographs = photographs.left_out, find(scene)
            photographs.left_out.update(refused)
        if len(photographs.items) < 2:
            why = "poses are found by comparing photographs, so take many, from all around"
            raise UserError(f"{photographs.folder}: only one photograph; {why}")
        plan = make_plan(config, [p.size for p in photographs.items], "frames" in state)
        for line in _introduction(photographs, config.panorama):
            progress.say(line)
        by = f"{plan['method']} matching and {plan['mapper']} mapping on {plan['threads']} threads"
        progress.say(f"{by}, into {model} and {folder}")
        auto = config.camera_model == "auto"
        job = {
            "photographs": [asdict(p) for p in photographs.items],
            "camera_model": "SIMPLE_RADIAL" if auto else config.camera_model,
            "lens": auto,
            "seed": config.seed,
            "align": config.align,
        } | plan
        key = fingerprint(job | dict(threads=0), 6)
        job |= dict(images=str(photographs.folder.absolute()))
        done = state.get("model", {})
        kept = done.get("key") == key and done["files"] == digests(model)
        folder.mkdir(parents=True, exist_ok=True)
        job |= dict(scene=str(scene.absolute()), key=key)
        found = done["outcome"] if kept else work(job, folder, progress)
        missing = photographs.left_out | found["missing"]
        outcome = Outcome(**found | dict(missing=missing, seconds=progress.spent))
        write_json(folder / REPORT, asdict(outcome))
    except OSError as error:
        raise UserError(f"{error.filename or scene}: {error.strerror or error}") from error
    for line in _summary(outcome, folder):
        progress.say(line)
    took = f"done in {Bar.format_interval(sum(progress.spent.values()))}"
    took = "done before with these settings" if kept else took
    progress.say(f"{took}: {model}; next: hardsplat train {shlex.quote(str(scene))}")
    return outcome


def scene_of(data: Path, out: Path | None = None) -> Path:
    """The scene folder: `out`; or the folder of photographs itself; or a folder next to a video,
    with its name."""
    return out or (data if data.is_dir() else data.with_suffix(""))


def _check_model(scene: Path, state: State, overwrite: bool) -> None:
    """Refuses to replace a model that hardsplat did not make; with `overwrite` it is renamed, and
    every stage begins again."""
    folder, model = scene / "sparse", scene / "sparse" / "0"
    ours = model.is_dir() and digests(model) == state.get("model", {}).get("files")
    left = folder.iterdir() if folder.is_dir() else ()  # .part: of a process that was killed
    if any(path.suffix != ".part" for path in left) and not ours:
        if not overwrite:
            what = "add --overwrite to rename it, or --out SCENE to write elsewhere"
            raise UserError(f"{folder}: has a model that hardsplat sfm did not make; {what}")
        number = next(n for n in range(1, 10_000) if not (scene / f"sparse_{n}").exists())
        folder.rename(scene / f"sparse_{number}")
    if overwrite:
        state.clear()
        state.put()


def _take_frames(
    video: Path, scene: Path, state: State, config: SfmConfig, progress: StageProgress
) -> None:
    """Frames of the video into SCENE/images, unless they are there."""
    images, taken = scene / "images", state.get("frames")
    panorama = config.panorama == "all" or (config.panorama == "auto" and says_panorama(video))
    key = [video.name, changed_at(video), config.num_frames, panorama]
    if images.is_dir() and taken == key:
        return
    others = listed(images) if images.is_dir() else []
    if taken:
        others = [name for name in others if not FRAME.fullmatch(name)]
    if others and not config.overwrite:
        what = "name another scene with --out SCENE, or add --overwrite to replace them"
        raise UserError(f"{images}: has photographs that are not of {video.name}; {what}")
    progress.begin("frames", 1)
    try:
        with replacing_folder(images) as partial:
            count = extract_frames(video, partial, config.num_frames, progress.at, panorama)
        progress.end(count)
    except BaseException:
        with suppress(OSError):  # where nothing else is in it
            scene.rmdir()
        raise
    finally:
        progress.close()
    state.put(frames=key)


def _copy(data: Path, scene: Path) -> None:
    """The photographs, and their masks, into SCENE/images and SCENE/masks; what is there already is
    left. Raises OSError."""
    source, masks = image_folder(data), Masks(data).folder or data / FOLDER
    pairs = [(source / name, scene / "images" / name) for name in listed(source)]
    pairs += [(old, scene / FOLDER / old.relative_to(masks)) for old in masks.rglob("*")]
    for old, new in pairs:  # the scene may lie among the photographs
        inside = old.absolute().is_relative_to(scene.absolute())
        if old.is_file() and not inside and changed_at(new) != changed_at(old):
            with replacing(new) as partial:
                shutil.copy2(old, partial)


def _introduction(photographs: PhotographFolder, panorama: str) -> list[str]:
    items = photographs.items
    sizes, cameras = sorted({p.size for p in items}), {p.camera for p in items}
    known = len({p.camera for p in items if p.taken.focal})
    focal = f"focal length from EXIF ({known})" if known else "focal length unknown"
    size = "{}x{}".format(*sizes[0]) if len(sizes) == 1 else f"{len(sizes)} sizes"
    if whole := sum(p.panorama for p in items):
        focal = f"{whole} panoramas of all directions (--panorama none: plain photographs)"
    taken = f"{len(cameras)} camera{'s' * (len(cameras) > 1)}, {focal}"
    lines = [f"{len(items)} photographs in {photographs.folder}, {size}, {taken}"]
    maybe = sum(is_whole(*p.size) for p in items) - whole
    if maybe and panorama == "auto":
        lines.append(
            f"note: {maybe} photographs are twice as wide as high, but nothing in them says that "
            "they show all directions: --panorama all, if they do"
        )
    if others := photographs.left_out | photographs.spare:
        name, reason = next(iter(others.items()))
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        lines.append(f"left out: {name} ({reason}){more}")
    return lines


def _summary(outcome: Outcome, folder: Path) -> list[str]:
    n, total = len(outcome.registered), len(outcome.registered) + len(outcome.missing)
    points = f"{outcome.points:,} points seen by {outcome.track:.1f} photographs"
    error = f"reprojection error {outcome.error:.2f} px"
    lines = [f"{n} of {total} photographs have a pose; {points}, {error}"]
    lines += outcome.cameras[:_LISTED]
    if missing := outcome.missing:
        lines.append(f"{len(missing)} without a pose:")
        lines += [f"  {name}: {why}" for name, why in list(missing.items())[:_LISTED]]
        if len(missing) > _LISTED:
            lines.append(f"  and {len(missing) - _LISTED} more, all in {folder / REPORT}")
    if len(outcome.parts) > 1:
        lines.append(f"parts, with pictures in {folder / SHEET}:")
        lines += [f"  {part['line']}" for part in outcome.parts[:_LISTED]]
    lines.append(f"alignment: {outcome.alignment['note']}")
    lines += [f"another model, not kept: {line}" for line in outcome.others[:_LISTED]]
    if outcome.agreement < AGREES:
        what = f"{1 - outcome.agreement:.0%} of the matches contradict these poses"
        advice = "some are likely wrong: take more photographs between these"
        lines.append(f"note: {what}, so {advice}")
    if n < _FEW:
        lines.append(f"note: {n} photographs are few for splats; 30 to 200 are usual")
    if n < 0.7 * total:
        lines.append("note: many photographs have no pose; docs/guide/capture.md says what helps")
    return lines

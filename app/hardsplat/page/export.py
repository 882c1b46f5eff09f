"""Splats and cameras to HTML: a page of its own, or a viewer within another page."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from hardsplat.base.errors import UserError
from hardsplat.base.files import replacing, written
from hardsplat.base.version import __version__
from hardsplat.model.camera import Camera, intrinsics
from hardsplat.model.framing import look_at, scene_bounds, spread
from hardsplat.model.gaussians import Gaussians
from hardsplat.page.choose import Choice, choice, foremost, kept, visible
from hardsplat.page.pack import MOST_SPLATS, Packed, pack
from hardsplat.tables import keys

WEB = Path(__file__).parent / "web"
MIN_OPACITY = 0.005  # at which training removes splats, too
MOST_CAMERAS, FEW_CAMERAS = 500, 60  # of a page, of a small viewer
SMALL_BYTES = 3_000_000  # of a viewer within a report
_BASE64 = 4 / 3
# bytes of a packed splat with SH of degree 1, and of scripts and cameras: a first guess
_PER_SPLAT = 17.8
_AROUND = 55_000
_ESTIMATED_FROM = 8  # cameras; more of them say little that is new
# of the camera that looks at splats without any: vertical, px
_FOV = np.radians(50.0)
_SIZE = (1280, 720)
_PICTURE_SIDE = 640  # px at most, of the picture that is shown while the scene is unpacked
_PICTURE_BYTES = 60_000  # that it may take; a first guess
_VIEWER = ("controls.js", "painter.js", "input.js", "viewer.js")
_WORKER = ("sort.js", "decode.js")
VIEWER = "viewer.html"  # the template of one
SHADERS = ("cover.vert", "project.frag", "splat.vert", "splat.frag", "show.frag")


@dataclass(frozen=True)
class PageScene:
    """What a page shows besides its splats.

    cameras: by name, in the order of the list; the page begins at the first. near: splats nearer
    than that are not drawn, world units. background: (3,) colour behind the splats. antialiased:
    they were trained so. up: (3,) world direction, None for that of the cameras. picture: (H, W, 3)
    uint8 or a picture_uri, what the first camera sees, for the moments until it is drawn.
    """

    title: str = "hardsplat"
    cameras: Mapping[str, Camera] = field(default_factory=dict)
    near: float = 0.01
    background: tuple[float, float, float] = (0.0, 0.0, 0.0)
    antialiased: bool = False
    up: np.ndarray | None = None
    picture: np.ndarray | str | None = None


@dataclass(frozen=True)
class WrittenPage:
    """A page and its sizes: splats, bytes of the file, bytes of the packed splats before base64."""

    path: Path
    splats: int
    bytes: int
    packed: int


def write_page(
    path: Path,
    gaussians: Gaussians,
    shown: PageScene,
    max_splats: int | None = None,
    sh_degree: int | None = None,
    min_opacity: float = MIN_OPACITY,
) -> WrittenPage:
    """One HTML file that needs nothing else and asks for nothing, whole or not at all.

    max_splats: the most important ones are taken (default: what WebGL2 has room for). sh_degree:
    highest degree of colour kept, default all. Raises UserError where no splat is left or the file
    cannot be written.
    """
    most, cameras = min(max_splats or MOST_SPLATS, MOST_SPLATS), list(shown.cameras.values())
    chosen = kept(gaussians, cameras, most, min_opacity, sh_degree)
    packed = pack(chosen)
    style = "html, body { margin: 0; height: 100%; background: #000; }\n" + source("viewer.css")
    script = _script()
    inline = f"style-src {inline_hash(style)}; script-src {inline_hash(script)}; worker-src blob:"
    policy = f"default-src 'none'; img-src data:; {inline}; base-uri 'none'; form-action 'none'"
    viewer = _viewer(packed, chosen, shown, MOST_CAMERAS, whole=True)
    page = template("page.html").render(
        version=__version__,
        title=shown.title,
        policy=policy,
        style=style,
        script=script,
        viewer=viewer,
    )
    data = page.encode()
    with written(path), replacing(path) as partial:
        partial.write_bytes(data)
    return WrittenPage(path, len(chosen), len(data), len(packed.data))


def small_choice(
    means: np.ndarray,
    scales: np.ndarray,
    opacities: np.ndarray,
    shown: PageScene,
    budget_bytes: int = SMALL_BYTES,
    most: int = MOST_SPLATS,
) -> Choice:
    """Which splats a small viewer shows: as many as fit about into so many bytes. most: splats that
    it is made of, of which no more than the most important ones are looked at. Raises UserError
    where none is left."""
    rows = np.flatnonzero(visible(means, scales, opacities, MIN_OPACITY))
    if not len(rows):
        raise UserError(f"none of {len(means):,} splats is left")
    cameras = _estimated_from(shown)
    if len(rows) > most:
        rows = rows[foremost(means[rows], scales[rows], opacities[rows], cameras, most)]
    splats = max(1, int((budget_bytes - _AROUND - _PICTURE_BYTES) / _BASE64 / _PER_SPLAT))
    return choice(means, scales, opacities, cameras, min(splats, MOST_SPLATS), rows)


def _estimated_from(shown: PageScene) -> list[Camera]:
    everywhere = list(shown.cameras.values())
    return [everywhere[i] for i in spread(len(everywhere), _ESTIMATED_FROM)]


def small_viewer(chosen: Gaussians, shown: PageScene, budget_bytes: int = SMALL_BYTES) -> str:
    """A fragment of HTML of at most about that many bytes, which starts at a click: the splats of a
    small_choice, or as many of the most important as fit, with colour of degree 1.

    The page around it needs `style()` and allows inline scripts, inline styles, images from data:
    and workers from blob: URLs.
    """
    for _ in range(5):
        packed = pack(chosen)
        viewer = _viewer(packed, chosen, shown, FEW_CAMERAS, whole=False)
        text, data = f"{viewer}\n<script>{_script()}</script>", int(_BASE64 * len(packed.data))
        if len(text) <= budget_bytes:
            break
        # of those that are left, for there are much fewer of them
        splats = max(1, int(0.98 * len(chosen) * (budget_bytes - len(text) + data) / data))
        chosen = kept(chosen, _estimated_from(shown), splats, sh_degree=1)
    return text


def _viewer(
    packed: Packed, gaussians: Gaussians, shown: PageScene, most_cameras: int, whole: bool
) -> str:
    view = view_header(gaussians, shown, most_cameras)
    header = {**packed.header, **view}
    size = view["cameras"][0]["size"]
    return template(VIEWER).render(
        whole=whole,
        keys=keys.rows(page=True),
        title=shown.title,
        aspect=tuple(size),
        picture=_opening(shown),
        header=header,
        header_json=json.dumps(header, allow_nan=False).replace("<", "\\u003c"),
        data=base64.b64encode(packed.data).decode(),
        worker="\n".join(map(source, _WORKER)),
        shaders={name: source(name) for name in SHADERS},
    )


def view_header(gaussians: Gaussians, shown: PageScene, most_cameras: int = MOST_CAMERAS) -> dict:
    """What the viewer needs besides splats, as JSON holds it."""
    setting = scene_bounds(gaussians, list(shown.cameras.values()), shown.up)
    cameras = dict(shown.cameras) or {"start": _from_afar(setting)}
    entries = list(cameras.items())
    return {
        "title": shown.title,
        "near": shown.near,
        "background": [float(c) for c in shown.background],
        "antialiased": shown.antialiased,
        "up": _rounded(setting.up),
        "centre": _rounded(setting.centre),
        "cameras": [_entry(*entries[i]) for i in spread(len(entries), most_cameras)],
    }


def _entry(name: str, camera: Camera) -> dict:
    K, size = camera.K, [camera.width, camera.height]
    numbers = _rounded([K[0, 0], K[1, 1], K[0, 2], K[1, 2]])
    return dict(name=name, w2c=_rounded(camera.w2c[:3].ravel()), K=numbers, size=size)


def _rounded(numbers) -> list[float]:
    return [float(f"{x:.8g}") for x in numbers]


def _from_afar(setting) -> Camera:
    """A camera that has most splats in view, a little from above."""
    ahead = np.cross(setting.up, np.eye(3)[np.argmin(np.abs(setting.up))])
    toward = np.cos(0.25) * ahead / np.linalg.norm(ahead) - np.sin(0.25) * setting.up
    away = 1.1 * setting.reach / np.tan(_FOV / 2) * toward
    pose = look_at(setting.centre - away, setting.centre, setting.up)
    return Camera(pose, intrinsics(_FOV, *_SIZE), *_SIZE)


def _opening(shown: PageScene) -> str | None:
    picture = shown.picture
    return picture_uri(picture) if isinstance(picture, np.ndarray) else picture


def picture_uri(image: np.ndarray, side: int = _PICTURE_SIDE) -> str:
    """(H, W, 3) uint8 as a data URI, at most `side` px wide and high."""
    picture, out = Image.fromarray(image), io.BytesIO()
    picture.thumbnail((side, side), Image.Resampling.BOX)
    picture.save(out, format="WEBP", quality=60)
    return f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}"


def _script() -> str:
    """The viewer as one script, in a scope of its own. Its parts say "use strict" for
    themselves."""
    return (
        "(() => {\n" + "\n".join([keys_script(), *map(source, (*_VIEWER, "boot.js"))]) + "})();\n"
    )


def keys_script() -> str:
    """FLIGHT and KEYS: what keys do, by KeyboardEvent.code."""
    held, pressed = json.dumps(keys.FLIGHT), json.dumps(keys.actions(page=True))
    return f"const FLIGHT = {held}, KEYS = {pressed};"


def inline_hash(text: str) -> str:
    """How a content security policy names an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@functools.cache
def source(name: str) -> str:
    return (WEB / name).read_text(encoding="utf-8")


@functools.cache
def template(name: str, folder: Path = WEB):
    """A template of pages, in which all text is escaped."""
    import jinja2

    loader = jinja2.FileSystemLoader(folder)
    found = jinja2.Environment(
        loader=loader,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    found.filters["mib"] = lambda n: f"{n / 2**20:,.1f}"
    return found.get_template(name)


# -- the page that streams levels of detail, and the module that shows them in other pages

PAGE, MODULE = "index.html", "hardsplat.js"
_STREAM = ("stream/levels.js", "stream/load.js")
_STREAM_WORKER = ("sort.js", "stream/levels.js", "stream/chunks.js", "stream/stream.js")
_STYLE = """html, body { margin: 0; height: 100%; background: #000; color: #e8e8e6; }
#disk { margin: 0; padding: 2rem; font: 14px/1.6 system-ui, sans-serif; }"""
_START = f"""
import {{ load }} from "./{MODULE}";
load("lod-meta.json", document.body, {{ whole: true }}).catch(() => {{}});
"""
# Browsers load no module from the disk, which the page would show as nothing at all.
_DISK = """
if (location.protocol === "file:") document.getElementById("disk").hidden = false;
"""


def write_stream_page(folder: Path, title: str) -> None:
    """Writes index.html and hardsplat.js next to lod-meta.json. A static server is all they take;
    browsers load nothing from the disk."""
    inline = f"style-src {inline_hash(_STYLE)}; script-src 'self'"
    inline += f" {inline_hash(_START)} {inline_hash(_DISK)}"
    policy = f"default-src 'none'; img-src data: blob:; {inline}; connect-src 'self'; "
    policy += "worker-src blob:; base-uri 'none'; form-action 'none'"
    page = template("stream/index.html").render(
        version=__version__, title=title, policy=policy, style=_STYLE, script=_START, disk=_DISK
    )
    (folder / PAGE).write_text(page, encoding="utf-8")
    (folder / MODULE).write_text(module(), encoding="utf-8")


def module() -> str:
    """hardsplat.js: the viewer as a module of one file, which exports `load`."""
    viewer = template(VIEWER).render(
        whole=False,
        keys=keys.rows(page=True),
        title="scene",
        aspect=None,
        picture=None,
        header=None,
    )
    held = {
        "PART": viewer,
        "SHADERS": {name: source(name).strip() for name in SHADERS},
        "WORKER": "\n".join(map(source, _STREAM_WORKER)),
    }
    texts = [f"const {name} = {json.dumps(value)};" for name, value in held.items()]
    fills = ".hs:not([data-whole]) {{ width: 100%; {}: {}; }}".format  # its element
    css = source("viewer.css").replace(fills("max-height", "90vh"), fills("height", "100%"))
    sheet = f"const SHEET = new CSSStyleSheet();\nSHEET.replaceSync({json.dumps(css)});"
    return "\n".join([*texts, sheet, keys_script(), *map(source, (*_VIEWER, *_STREAM))])

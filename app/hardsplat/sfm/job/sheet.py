"""A page of the parts of a set of photographs that do not connect, with small pictures of each."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Sequence
from html import escape
from pathlib import Path

from PIL import ImageOps

from hardsplat.base.files import replacing, written
from hardsplat.io.media.images import opened

SHEET = "parts.html"
_PICTURES, _PARTS = 24, 12  # shown of a part, spread evenly; parts with pictures
_SIDE = 180  # px, longer side of a picture
_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em}"
    "section{border-top:1px solid #999;margin-top:1.5em}"
    "figure{display:inline-block;margin:.3em;vertical-align:top;width:180px}"
    "img{max-width:100%;display:block}figcaption{font-size:12px;overflow-wrap:anywhere}"
)


def write_sheet(
    path: Path, images: Path, parts: Sequence[tuple[str, Sequence[str], Sequence[str]]]
) -> None:
    """Writes the page. parts: of each a line that says what it is, the names of its photographs
    below `images`, and the two of the pair that comes nearest to a connection, or none.

    Photographs that cannot be read are named without a picture. Raises UserError where the page
    cannot be written.
    """
    sections = []
    for number, (line, names, link) in enumerate(parts[:_PARTS], 1):
        step = max(1, -(-len(names) // _PICTURES))
        shown = list(names[::step])
        body = "".join(_figure(images, name) for name in shown)
        nearest = "".join(_figure(images, name) for name in link)
        nearest = f"<h3>Nearest to a connection</h3>{nearest}" * bool(link)
        all_names = escape(", ".join(names))
        hidden = f"<details><summary>all {len(names)} names</summary>{all_names}</details>"
        title = f"<h2>Part {number}</h2><p>{escape(line)}</p>"
        sections.append(f"<section>{title}{body}{nearest}{hidden}</section>")
    rest = [line for line, *_ in parts[_PARTS:]]
    if rest:
        items = "".join(f"<li>{escape(line)}</li>" for line in rest)
        sections.append(f"<section><h2>Others</h2><ul>{items}</ul></section>")
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    head = (
        '<!doctype html><meta charset="utf-8"><title>Parts that do not connect</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><style>{_STYLE}</style>'
    )
    why = (
        "Photographs of one part match each other, and none of another part well enough. To join "
        "two parts, take photographs that show something of both, each overlapping the next by "
        "two thirds, and run the same command again."
    )
    text = f"{head}<h1>Parts that do not connect</h1><p>{why}</p>{''.join(sections)}"
    with written(path), replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _figure(images: Path, name: str) -> str:
    picture = _thumbnail(images / name)
    shown = f'<img alt="" src="data:image/jpeg;base64,{picture}">' if picture else ""
    return f"<figure>{shown}<figcaption>{escape(name)}</figcaption></figure>"


def _thumbnail(path: Path) -> str:
    """The picture upright, as a small JPEG in base64; empty where it cannot be read."""
    out = io.BytesIO()
    try:
        with warnings.catch_warnings(), opened(path) as image:
            warnings.simplefilter("ignore")
            image.draft("RGB", (_SIDE, _SIDE))
            image.thumbnail((_SIDE, _SIDE))
            ImageOps.exif_transpose(image).convert("RGB").save(out, "JPEG", quality=75)
    except Exception:  # decoders of damaged files raise almost anything
        return ""
    return base64.b64encode(out.getvalue()).decode()

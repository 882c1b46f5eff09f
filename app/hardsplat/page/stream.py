"""The page that streams levels of detail, and the module that shows them in other pages."""

from __future__ import annotations

import json
from pathlib import Path

from hardsplat.base.version import __version__
from hardsplat.page.export import SHADERS, inline_hash, keys_script, source, template
from hardsplat.tables import keys

PAGE, MODULE = "index.html", "hardsplat.js"
_VIEWER = ("controls.js", "painter.js", "input.js", "viewer.js")
_SCRIPTS = (*_VIEWER, "stream/levels.js", "stream/load.js")
_WORKER = ("sort.js", "stream/levels.js", "stream/chunks.js", "stream/stream.js")
_STYLE = "html, body { margin: 0; height: 100%; background: #000; color: #e8e8e6; }"
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
    parts = dict(version=__version__, title=title, policy=policy, style=_STYLE)
    parts |= dict(script=_START, disk=_DISK)
    (folder / PAGE).write_text(template("stream/index.html").render(**parts), encoding="utf-8")
    (folder / MODULE).write_text(module(), encoding="utf-8")


def module() -> str:
    """hardsplat.js: the viewer as a module of one file, which exports `load`."""
    viewer = template("viewer.html").render(
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
        "WORKER": "\n".join(map(source, _WORKER)),
    }
    texts = [f"const {name} = {json.dumps(value)};" for name, value in held.items()]
    sheet = f"const SHEET = new CSSStyleSheet();\nSHEET.replaceSync({json.dumps(_sheet())});"
    return "\n".join([*texts, sheet, keys_script(), *map(source, _SCRIPTS)])


def _sheet() -> str:
    """An embedded viewer fills its element."""
    return source("viewer.css").replace(
        ".hs:not([data-whole]) { width: 100%; max-height: 90vh; }",
        ".hs:not([data-whole]) { width: 100%; height: 100%; }",
    )

"""Headless Chromium, where the machine has it, and what self-contained pages must be like."""

import base64
import io
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from tests.helpers import needs
from tests.helpers.devtools import chromium

_CHECK = """<script>addEventListener("load", () => {
  const broken = [...document.images].filter(i => !i.complete || !i.naturalWidth).length;
  const wide = document.documentElement.scrollWidth > innerWidth;
  document.title = `broken ${broken} of ${document.images.length}, wide ${wide}`;
%s
});</script></body>"""


def open_page(page: Path, folder: Path, script="", size=(1100, 1400)) -> tuple[str, Image.Image]:
    """(DOM after all scripts, screenshot). script: run in the page. Fails on complaints."""
    if (found := chromium()) is None:
        pytest.skip(needs.lacking("no Chromium"))
    copy = folder / f"{page.stem}_checked.html"
    copy.write_text(page.read_text().replace("</body>", _CHECK % script))
    flags = "--headless --no-sandbox --disable-gpu --hide-scrollbars".split()
    flags += [f"--user-data-dir={folder / 'profile'}", f"--window-size={size[0]},{size[1]}"]
    dom = _run(found, *flags, "--virtual-time-budget=3000", "--dump-dom", copy.as_uri())
    _run(found, *flags, f"--screenshot={folder / 'page.png'}", copy.as_uri())
    with Image.open(folder / "page.png") as picture:
        return dom, picture.convert("RGB")


def _run(*command) -> str:
    words = [*command[:-1], "--enable-logging=stderr", command[-1]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not complaints, complaints
    return done.stdout


def parts(page: Path) -> tuple[list[Image.Image], list[str]]:
    """Returns (pictures, plots as SVG) of a page, which refers to nothing but files beside it."""
    text = page.read_text()
    sources = re.findall(r'\b(?:src|href|action|data|poster)="([^"]*)"', text)
    abroad = [s[:80] for s in sources if not s.startswith(("data:", "runs/"))]
    assert not abroad and "default-src 'none'" in text
    assert not re.search(r"@import|url\(|<link|<iframe|fetch\(|XMLHttp|import\(", text)
    pictures, plots = [], []
    for source in sources:
        if source.startswith("data:image/webp"):
            picture = Image.open(io.BytesIO(base64.b64decode(source.split(",", 1)[1])))
            picture.load()
            pictures.append(picture)
        elif source.startswith("data:image/svg"):
            plots.append(base64.b64decode(source.split(",", 1)[1]).decode())
            ElementTree.fromstring(plots[-1])
    return pictures, plots

"""Headless Chromium, where the machine has it, and what self-contained pages must be like."""

import base64
import io
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from tests.helpers import needs
from tests.helpers.devtools import Browser, chromium

_SEEN = """(() => {
  const broken = [...document.images].filter(i => !i.complete || !i.naturalWidth).length;
  const wide = document.documentElement.scrollWidth > innerWidth;
  return `broken ${broken} of ${document.images.length}, wide ${wide}`;
})()"""


def open_page(page: Path, folder: Path, script="", size=(1100, 1400)) -> tuple[str, Image.Image]:
    """(what it holds, with its DOM after a script; screenshot). Fails on complaints."""
    if not chromium():
        pytest.skip(needs.lacking("no Chromium"))
    with Browser(folder, size) as browser:
        browser.open(page.as_uri())
        browser.wait("location.protocol == 'file:' && document.readyState == 'complete'")
        seen = browser.run(_SEEN)
        browser.run(f"(() => {{ {script} }})()")
        dom, picture = browser.run("document.documentElement.outerHTML"), browser.screenshot()
        assert browser.complaints == []
    return seen + dom, picture


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

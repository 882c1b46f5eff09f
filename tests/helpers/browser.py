"""Headless Chromium, where the machine has it, and what a page that holds all it shows must be
like."""

import base64
import io
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_CHECK = """<script>addEventListener("load", () => {
  const broken = [...document.images].filter(i => !i.complete || !i.naturalWidth).length;
  document.title = `broken ${broken} of ${document.images.length}, `
    + `wide ${document.documentElement.scrollWidth > innerWidth}`;
%s
});</script></body>"""


def open_page(
    page: Path, folder: Path, script: str = "", size=(1100, 1400)
) -> tuple[str, Image.Image]:
    """(its DOM after all scripts, a screenshot). script: run within the page once it is loaded.
    Fails on anything that the browser complains about; skips without one."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine to open pages in (apt-get install chromium)")
    copy = folder / f"{page.stem}_checked.html"
    copy.write_text(page.read_text().replace("</body>", _CHECK % script))
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}",
        f"--window-size={size[0]},{size[1]}",
    ]
    dom = _run(found, *flags, "--virtual-time-budget=3000", "--dump-dom", copy.as_uri())
    _run(found, *flags, f"--screenshot={folder / 'page.png'}", copy.as_uri())
    with Image.open(folder / "page.png") as picture:
        return dom, picture.convert("RGB")


def _run(*command) -> str:
    done = subprocess.run(
        [*command[:-1], "--enable-logging=stderr", command[-1]],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not complaints, complaints
    return done.stdout


def parts(page: Path) -> tuple[list[Image.Image], list[str]]:
    """(pictures, plots as SVG text) within a page, which is well formed so far and refers to
    nothing outside it but to files beside it."""
    text = page.read_text()
    sources = re.findall(r'\b(?:src|href|action|data|poster)="([^"]*)"', text)
    assert all(s.startswith(("data:", "runs/")) for s in sources), [
        s[:80] for s in sources if not s.startswith("data:")
    ]
    assert (
        not re.search(r"@import|url\(|<link|<iframe|fetch\(|XMLHttp|import\(", text)
        and "default-src 'none'" in text
    )
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


def all_grey(svg: str) -> bool:
    """No colour in it that a grey print would lose."""
    return all(
        c[:2] == c[2:4] == c[4:] for c in re.findall(r"#([0-9a-fA-F]{6})\b", svg)
    ) and not re.search(r"(?:fill|stroke): ?(?!none|#|url)[a-z]", svg)


def luminances(svg: str) -> list[float]:
    """Of the colours in it that are no greys, as a grey print has them (Rec. 709, of encoded
    values), each once, in order."""
    found = dict.fromkeys(
        c.lower() for c in re.findall(r"#([0-9a-fA-F]{6})\b", svg) if not c[:2] == c[2:4] == c[4:]
    )
    return sorted(
        sum(w * int(c[i : i + 2], 16) / 255 for w, i in zip((0.2126, 0.7152, 0.0722), (0, 2, 4)))
        for c in found
    )

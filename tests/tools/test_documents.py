"""Documents name files that exist, and their tables are those that the tools write."""

import re
import subprocess
import sys

import pytest

from hardsplat.io.formats import FILE_FORMATS
from hardsplat.tables.layouts import LAYOUTS
from tools import words

DOCUMENTS = words.tracked(words.DOCUMENTS)
FILES = words.tracked((".",))
PAGES = [name for name in FILES if name.endswith(".md")]
ENDINGS = "py|glsl|comp|frag|vert|geom|toml|sh"
# files of other places or of an example
SOMEWHERE_ELSE = {"config.toml", "NAME.glsl", "make_depth_scale.py", "mine.py", "mine.glsl"}
SOMEWHERE_ELSE |= {"vignette.py", "vignette.glsl", "vignette_chain.glsl", "shaders/densify/mine/"}


def without_code(text):
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(path):
    """What links into a page may name: its headings, as forges write them."""
    titles = re.findall(r"^#+ (.*)", without_code(path.read_text()), flags=re.MULTILINE)
    plain = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in plain}


@pytest.mark.parametrize("name", PAGES)
def test_links(name):
    path = words.ROOT / name
    for target in re.findall(r"\]\(([^)\s]+)", without_code(path.read_text())):
        if not target.startswith(("http:", "https:")):
            file, _, anchor = target.partition("#")
            page = path.parent / file if file else path
            assert page.exists(), target
            assert not anchor or anchor in anchors(page), target


@pytest.mark.parametrize("name", PAGES)
def test_code_ends_where_its_block_does(name):
    lines = (words.ROOT / name).read_text().splitlines()
    fences = [line.strip() for line in lines if "```" in line]
    assert all(re.fullmatch(r"```\w*", fence) for fence in fences)
    assert all(fence == "```" for fence in fences[1::2]) and len(fences) % 2 == 0


def test_code_names_pages_that_exist():
    for name in FILES:
        if name.endswith((".py", ".toml", ".glsl", ".comp")):
            text = (words.ROOT / name).read_text()
            named = re.findall(r"docs/(?:architecture|guide|results)/[\w-]+\.md", text)
            assert set(named) <= set(FILES), name


@pytest.mark.parametrize("name", DOCUMENTS)
def test_paths(name):
    text = without_code((words.ROOT / name).read_text())
    missing = []
    for path in re.findall(rf"`([\w/.]+\.(?:{ENDINGS}))`", text):
        own = path.rsplit("/")[-1] in SOMEWHERE_ELSE or path.startswith("results/")
        if not own and not any(f"/{file}".endswith(f"/{path}") for file in FILES):
            missing.append(path)
    folders = set(re.findall(r"`((?:app|shaders|tests|tools|docs|examples)/[\w/]*/)`", text))
    folders -= SOMEWHERE_ELSE
    missing += [f for f in folders if not any(file.startswith(f) for file in FILES)]
    assert not missing


def test_tables_are_current():
    command = [sys.executable, "-m", "tools.module_tables", "--check"]
    done = subprocess.run(command, cwd=words.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"run python -m tools.module_tables: {done.stdout}"


def test_shader_folders_are_all_described():
    text = (words.ROOT / "docs/ARCHITECTURE.md").read_text()
    table = text.partition("## Shaders by folder")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    described = {name for cell in cells for name in re.findall(r"`(\w+)/`", cell)}
    found = {name.split("/")[1] for name in FILES if re.match(r"shaders/\w+/", name)}
    assert described == found


def test_glossary_names_places_that_exist():
    text = (words.ROOT / "docs/glossary.md").read_text()
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| term"):
            place = line.rstrip("| ").rpartition("`")[0].rpartition("`")[2]
            top = words.ROOT if place.startswith("shaders") else words.ROOT / "app/hardsplat"
            assert (top / place).is_dir() or (top / f"{place}.py").is_file(), place


@pytest.mark.parametrize(
    "guide, title, names",
    [
        ("formats", "Which format", [row.suffix for row in FILE_FORMATS.values()]),
        ("training", "What a scene holds", [n for row in LAYOUTS.values() for n in row.cameras]),
    ],
)
def test_guides_have_a_row_of_every_format_and_layout(guide, title, names):
    text = (words.ROOT / f"docs/guide/{guide}.md").read_text()
    table = text.partition(f"## {title}")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("|")]
    named = {name for row in rows for name in re.findall("`(.*?)`", "".join(row))}
    assert not set(names) - named, f"the table under `{title}` lacks a row"

"""Writes the tables of modules into documents, from the first sentences of docstrings.

    python -m tools.module_tables [--check]

A document asks for a table of a folder and the folders below it by the two lines

    <!-- modules: app/hardsplat/gpu -->
    <!-- end -->

and for the table of floors, which `tools/layers.py` prints, by `<!-- floors -->`. What is between
the two lines is replaced. `--check` writes nothing and fails where a table is out of date.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r"(?P<open><!-- (?P<kind>modules|floors):? ?(?P<folder>\S*) -->\n).*?(?P<close><!-- end -->)",
    re.DOTALL,
)


def summary(path: Path) -> str:
    """Returns the first sentence of a module's docstring, as a cell of a table."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z`])", paragraph)[0]
    return sentence.removesuffix(".").replace("|", "\\|")


def modules(folder: str) -> str:
    """Makes the table of a folder: its modules first, then those of the folders below."""
    top = ROOT / folder
    paths = sorted(top.rglob("*.py"), key=lambda path: (path.parent.parts, path.name))
    rows = [f"| module of `{folder}` | content |", "|---|---|"]
    for path in paths:
        name = path.relative_to(top).as_posix()
        text = summary(path)
        if path.name == "__init__.py":
            if path.parent == top or not text:
                continue
            name = f"{path.parent.relative_to(top).as_posix()}/"
        rows.append(f"| `{name}` | {text} |")
    return "\n".join(rows) + "\n"


def floors() -> str:
    """Makes the table of floors, with the content of each folder."""
    command = [sys.executable, "-m", "tools.layers", "--markdown"]
    table = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    rows = ["| floor | folder or module | content | imports |", "|---|---|---|---|"]
    package = ROOT / "app/hardsplat"
    for line in table.splitlines()[2:]:
        floor, box, below = (cell.strip() for cell in line.split("|")[1:4])
        name = box.strip("`")
        inside = "__init__.py" if name == "hardsplat" else f"{name}/__init__.py"
        path = package / inside
        path = path if path.exists() else package / f"{name}.py"
        rows.append(f"| {floor} | {box} | {summary(path) if path.exists() else ''} | {below} |")
    return "\n".join(rows) + "\n"


def renewed(text: str) -> str:
    """Returns a document with all of its tables made again."""

    def table(match: re.Match[str]) -> str:
        made = modules(match["folder"]) if match["kind"] == "modules" else floors()
        return match["open"] + made + match["close"]

    return BLOCK.sub(table, text)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.module_tables")
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args()
    stale = []
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        new = renewed(text)
        if new != text:
            stale.append(path.relative_to(ROOT).as_posix())
            if not given.check:
                path.write_text(new, encoding="utf-8")
    print(*stale, sep="\n")
    return int(given.check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())

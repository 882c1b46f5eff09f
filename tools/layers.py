"""The structure of the package by its imports: `python -m tools.layers` exits 1 where it is broken.

Every import counts, also lazy ones and those under TYPE_CHECKING. A box is a folder or module
directly below the package. Its floor is the longest path of imports below it.

    python -m tools.layers             floors, circles, upward arrows
    python -m tools.layers --markdown  the table of docs/ARCHITECTURE.md
"""

import argparse
import ast
import sys
from collections import Counter, defaultdict
from pathlib import Path

PACKAGE = "hardsplat"
ROOT = Path(__file__).parents[1] / "app" / PACKAGE
FACE = "hardsplat"  # the box of the package's own __init__
FLOORS, FILES = 11, 14  # the most floors, and files of a folder besides its __init__

# the boxes from top to bottom: a box imports those of later rows alone
ORDER = """
__main__
cli
hardsplat
serve
mesh study view
export render fit fitmesh
train
report torch
step
results
edit raster sfm
gpu io page
settings
contract model
tables
base
"""
RANK = {box: row for row, line in enumerate(ORDER.split("\n")[1:-1]) for box in line.split()}


def modules():
    """{module: file}, names without the package's own; the package itself is ''."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path, known):
    """The modules of the package that a file imports, wherever in it the import stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        before = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            package, _, module = f"{before}{alias.name}".partition(".")
            if package == PACKAGE:
                yield module if module in known else module.rpartition(".")[0]


def graph():
    """{module: the modules it imports}."""
    known = modules()
    return {name: {*imports(path, known)} - {name} for name, path in known.items()}


def collapse(edges, place):
    """The graph of the folders or boxes of modules: {place: {place: [(module, module)]}}."""
    out = defaultdict(lambda: defaultdict(list))
    for name, others in edges.items():
        inner = out[place(name)]
        for other in others:
            if place(other) != place(name):
                inner[place(other)].append((name, other))
    return out


def circles(edges):
    """Groups of two or more nodes of which each leads to all the others."""
    reached = {}
    for start in list(edges):
        reached[start], ahead = set(), [start]
        while ahead:
            new = set(edges.get(ahead.pop(), ())) - reached[start]
            reached[start] |= new
            ahead += new
    groups = {tuple(sorted(b for b in reached[a] if a in reached[b])) for a in reached}
    return sorted(group for group in groups if len(group) > 1)


def floors(edges, rings):
    """{box: floor}, 1 at the bottom; the boxes of one circle share theirs."""
    ring, known = {box: boxes for boxes in rings for box in boxes}, {}

    def floor(box):
        group = ring.get(box, (box,))
        if group not in known:
            below = {other for member in group for other in edges.get(member, ())} - {*group}
            known[group] = 1 + max(map(floor, below), default=0)
        return known[group]

    return {box: floor(box) for box in list(edges)}


def main():
    parser = argparse.ArgumentParser(description="structure of the package by its imports")
    parser.add_argument("--markdown", action="store_true", help="print the table of floors alone")
    args = parser.parse_args()
    edges = graph()
    packages = {name.rpartition(".")[0] for name in edges} - {""}

    def folder(name):
        return name if name in packages else name.rpartition(".")[0]

    boxes = collapse(edges, lambda name: name.split(".")[0] or FACE)
    rings = circles(boxes)
    height = floors(boxes, rings)
    if args.markdown:
        print("| floor | box | imports |\n|---|---|---|")
        for box in sorted(boxes, key=lambda b: (height[b], b)):
            print(f"| {height[box]} | `{box}` | {', '.join(sorted(boxes[box]))} |")
        return 0
    for floor in range(max(height.values()), 0, -1):
        print(f"{floor:3d}  {' '.join(sorted(box for box in boxes if height[box] == floor))}")
    found = {"boxes": rings, "folders": circles(collapse(edges, folder)), "files": circles(edges)}
    problems = [f"circle of {what}: {' '.join(ring)}" for what in found for ring in found[what]]
    for box, others in boxes.items():
        for other, pairs in others.items():
            known = box in RANK and other in RANK
            circle = any({box, other} <= {*ring} for ring in rings)
            if RANK[box] >= RANK[other] if known else circle:
                problems += [f"upward: {a or FACE} -> {b or FACE}" for a, b in sorted(pairs)]
    count = Counter(folder(name) for name in edges if name not in packages)
    top = max(height.values())
    problems += [f"{n} files in {name or FACE}" for name, n in count.items() if n > FILES]
    problems += [f"{top} floors, at most {FLOORS}"] * (top > FLOORS)
    print(f"{len(edges)} modules, {len(count)} folders, {len(boxes)} boxes, {top} floors")
    print(*problems, sep="\n")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())

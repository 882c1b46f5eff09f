"""The structure of the package: arrows between folders point down."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tools import layers

ROOT = Path(__file__).parents[2]
FACE = "hardsplat.train"
# package -> folders
ALONE = {"vulkan": ("gpu",), "glfw": ("gpu", "view"), "slimgui": ("view",), "pycolmap": ("sfm",)}


def test_the_structure_holds():
    """No circle, no arrow upward, not too many floors, not too many files in a folder."""
    command = [sys.executable, "-m", "tools.layers"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("package", ALONE)
def test_a_library_is_imported_in_one_place(package):
    """Also inside functions; a folder that has no Vulkan can be imported without a device."""
    words = (f"import {package}", f"from {package}")
    places = {
        path.relative_to(layers.ROOT).parts[0]
        for path in layers.ROOT.rglob("*.py")
        if any(line.strip().startswith(words) for line in path.read_text().splitlines())
    }
    assert places and places <= set(ALONE[package])


def test_rooms_above_training_import_its_face_alone():
    """Names are where the face says, and it has none that nobody imports."""
    used: set[str] = set()
    outside = [*layers.ROOT.rglob("*.py"), *(ROOT / "tools").rglob("*.py")]
    for path in outside:
        if layers.ROOT / "train" in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(FACE):
                assert node.module == FACE, f"{path}: {node.module}"
                used |= {alias.name for alias in node.names}
    face = importlib.import_module(FACE)
    assert used == {*" ".join(face._HOME.values()).split()}
    assert all(getattr(face, name) is not None for name in used)

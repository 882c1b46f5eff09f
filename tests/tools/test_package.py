"""sdist, isolated wheel, and what it installs on a machine without a shader compiler."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from hardsplat.gpu.passes import shader
from tests.helpers import needs
from tests.helpers.tables import argv
from tools import catalog

ROOT = Path(__file__).parents[2]
APP = ROOT / "app" / "hardsplat"
BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
STEPS = "--data-factor 8 --max-steps 20 --quiet --result-dir"
COURTYARD = ("-m hardsplat train", ROOT / "scenes/courtyard", STEPS)


def run(*command, cwd, python=sys.executable, **environment) -> str:
    """Standard output of a Python that must succeed."""
    how = dict(cwd=cwd, env=os.environ | environment, capture_output=True, text=True)
    done = subprocess.run([python, *map(str, command)], **how)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def empty(folder: Path, pip: str = "--without-pip") -> Path:
    """The Python of a new environment."""
    run(*argv("-m venv", pip, folder), cwd=folder.parent)
    return folder / "bin" / "python"


def required(requirement: str) -> set[str]:
    """Names of a distribution and of all that it requires and that is here."""
    name = re.match(r"[\w.-]+", requirement)[0]
    try:
        below = distribution(name).requires or []
    except ModuleNotFoundError:  # of another system or Python
        return set()
    return {name}.union(*(required(line) for line in below if "extra ==" not in line))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    needs.module("hatchling")
    folder = tmp_path_factory.mktemp("sdist")
    run(*argv("-m hatchling build -t sdist -d", folder), cwd=ROOT)
    return next(folder.glob("hardsplat-*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory) -> Path:
    """Built by an empty Python with the build's needs in PYTHONPATH, as by pip without network."""
    folder = tmp_path_factory.mktemp("wheel")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    wanted = [*settings["build-system"]["requires"], *hook["dependencies"]]
    (packages := folder / "packages").mkdir()
    for found in map(distribution, set().union(*map(required, wanted))):
        for top in {file.parts[0] for file in found.files} - {"..", "__pycache__"}:
            (packages / top).symlink_to(found.locate_file(top))
    shutil.unpack_archive(sdist, folder)
    source, python = folder / sdist.name.removesuffix(".tar.gz"), empty(folder / "python")
    run("-c", BUILD, folder, cwd=source, python=python, PYTHONPATH=str(packages))
    return next(folder.glob("hardsplat-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A Python that has the wheel and neither checkout nor compiler nor compiled shaders."""
    folder = tmp_path_factory.mktemp("installed")
    site, cache = folder / "site", folder / "cache"
    run(*argv("-m pip install --no-deps --no-index --target", site, wheel), cwd=folder)
    own = dict(PYTHONPATH=str(site), PATH=str(folder), HARDSPLAT_CACHE=str(cache))

    def call(*command):
        out = run(*command, cwd=folder, **own)
        assert not (cache / "spirv").exists(), "a shader was compiled"
        return out

    where = call("-c", "import hardsplat; print(hardsplat.__file__)")
    assert where.startswith(str(folder / "site"))
    return call


def test_the_wheel_holds_every_shader_module_and_preset(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {f"hardsplat/spirv/{shader.key(source)}.spv" for source in set(catalog.sources())}
    assert modules == {n for n in names if n.endswith(".spv")}
    for folder, root in (("shaders", ROOT), ("configs", ROOT), ("report/templates", APP)):
        files = [path.relative_to(root) for path in (root / folder).rglob("*") if path.is_file()]
        assert files and {f"hardsplat/{path.as_posix()}" for path in files} <= names
    (record,) = [name for name in names if name.endswith("/RECORD")]
    assert {name.split("/")[0] for name in names} == {"hardsplat", record.split("/")[0]}


ONE_SPLAT = """
import numpy as np
from hardsplat import Camera, Gaussians, Renderer
splat = Gaussians([[0, 0, 2]], [[1, 0, 0, 0]], [[.2, .2, .2]], [.5], np.ones((1, 1, 3)))
renderer, camera = Renderer(), Camera(np.eye(4), [[16, 0, 8], [0, 16, 8], [0, 0, 1]], 16, 16)
image, T = renderer.forward(splat, camera)
print(image.max() > 0.3, renderer.backward(np.ones((16, 16, 3)))["sh"].min() > 0)
"""


def test_an_installed_wheel_renders_and_differentiates(installed):
    assert installed("-c", ONE_SPLAT).split() == ["True", "True"]


def test_an_installed_wheel_trains(installed, scene, tmp_path):
    assert "ready: " in installed(*argv("-m hardsplat doctor"))
    train = argv("-m hardsplat train", scene, "--max-steps 3 --quiet --result-dir")
    installed(*train, tmp_path / "preset", *argv("--config quick"))
    assert "sh_degree = 1\n" in (tmp_path / "preset/config.toml").read_text()
    installed(*train, tmp_path / "other", *argv("--gradient stochastic --strategy mcmc"))
    for name in ("preset/report.html", "preset/splats.ply", "other/splats.ply"):
        assert (tmp_path / name).stat().st_size > 0


def test_pip_installs_the_source_into_an_empty_environment(everything, sdist, tmp_path):
    """By an isolated build, with the requirements of users."""
    python, own = empty(tmp_path / "python", ""), {"PYTHONPATH": ""}
    run(*argv("-m pip install -q", sdist), cwd=tmp_path, python=python, **own)
    assert "ready: " in run(*argv("-m hardsplat doctor"), cwd=tmp_path, python=python, **own)
    run(*argv(*COURTYARD, tmp_path / "out"), cwd=tmp_path, python=python, **own)
    assert (tmp_path / "out/splats.ply").stat().st_size > 0


def test_without_a_compiler_the_build_says_what_it_needs(tmp_path):
    environment = os.environ | {"PATH": str(tmp_path), "HARDSPLAT_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", catalog.__name__, tmp_path / "spirv"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    words = "hardsplat: error: no GLSL compiler: install glslang"
    assert done.returncode == 1 and done.stderr.startswith(words), done.stderr

"""The wheel: complete, and enough on a machine that has a Vulkan driver but no shader compiler."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from hardsplat.gpu.passes import shader
from tests.helpers.tables import argv
from tools import catalog

ROOT = Path(__file__).parents[2]
APP = ROOT / "app" / "hardsplat"


def run(*command, cwd, **environment) -> str:
    """Standard output of a Python that must succeed."""
    how = dict(cwd=cwd, env=os.environ | environment, capture_output=True, text=True)
    done = subprocess.run([sys.executable, *map(str, command)], **how)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    pytest.importorskip("hatchling", reason="building a wheel: pip install -e '.[test]'")
    folder, offline = tmp_path_factory.mktemp("wheel"), "--no-deps --no-build-isolation --no-index"
    run(*argv("-m pip wheel", ROOT, offline, "--wheel-dir", folder), cwd=folder)
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


def test_an_installed_wheel_trains_with_a_preset_by_name(installed, scene, tmp_path):
    options = "--max-steps 3 --quiet --result-dir"
    train = argv("-m hardsplat train", scene, options)
    installed(*train, tmp_path / "result", "--config", "quick")
    assert (tmp_path / "result/splats.ply").stat().st_size > 0
    assert "sh_degree = 1\n" in (tmp_path / "result/config.toml").read_text()
    installed(*train, tmp_path / "other", *argv("--gradient stochastic --strategy mcmc"))
    assert (tmp_path / "other/splats.ply").stat().st_size > 0


BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in allowed:
            raise ImportError(f"{name} is no dependency of the build")
allowed = {*sys.stdlib_module_names, "hardsplat", "tools", *sys.argv[1:]}
sys.meta_path.insert(0, Blocked())
from tools import catalog
print(len(set(catalog.sources())))
"""


def test_the_build_imports_its_own_dependencies_alone():
    """An isolated build has nothing else."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    below = ("cffi", "_cffi_backend", "pycparser")  # which vulkan brings
    environment = {"PYTHONPATH": str(ROOT / "app")}
    assert int(run("-c", BLOCKED, *hook["dependencies"], *below, cwd=ROOT, **environment)) > 100


def test_without_a_compiler_the_build_says_what_it_needs(tmp_path):
    environment = os.environ | {"PATH": str(tmp_path), "HARDSPLAT_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", catalog.__name__, tmp_path / "spirv"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    words = "hardsplat: error: no GLSL compiler: install glslang"
    assert done.returncode == 1 and done.stderr.startswith(words), done.stderr

"""The wheel: complete, and enough on a machine that has a Vulkan driver but no shader compiler."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hardsplat import catalog
from hardsplat.gpu import shader
from tools.make_scene import make_scene

ROOT = Path(__file__).parents[1]


def run(*command, cwd, **environment) -> str:
    """Standard output of a Python that must succeed."""
    done = subprocess.run([sys.executable, *map(str, command)], cwd=cwd, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    pytest.importorskip("hatchling", reason="building a wheel takes hatchling: pip install -e '.[test]'")
    folder = tmp_path_factory.mktemp("wheel")
    run("-m", "pip", "wheel", ROOT, "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder, cwd=folder)
    return next(folder.glob("hardsplat-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """installed(command...) -> output of a Python that has the wheel, and neither this checkout, nor a compiler, nor compiled shaders."""
    folder = tmp_path_factory.mktemp("installed")
    run("-m", "pip", "install", "--no-deps", "--no-index", "--target", folder / "site", wheel, cwd=folder)
    cache = folder / "cache"

    def call(*command):
        out = run(*command, cwd=folder, PYTHONPATH=str(folder / "site"), PATH=str(folder), HARDSPLAT_CACHE=str(cache))
        assert not (cache / "spirv").exists(), "a shader was compiled"
        return out

    assert call("-c", "import hardsplat; print(hardsplat.__file__)").startswith(str(folder / "site"))
    return call


def test_the_wheel_holds_every_shader_module_and_preset(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"hardsplat/spirv/{shader.key(source)}.spv" for source in catalog.sources()} == {n for n in names if n.endswith(".spv")}
    for folder, root in (("shaders", ROOT), ("configs", ROOT), ("report/templates", ROOT / "app" / "hardsplat")):
        files = [path for path in (root / folder).rglob("*") if path.is_file()]
        assert files and {f"hardsplat/{path.relative_to(root).as_posix()}" for path in files} <= names
    assert {name.split("/")[0] for name in names} == {"hardsplat", next(n for n in names if n.endswith("/RECORD")).split("/")[0]}


def test_an_installed_wheel_renders_and_differentiates(installed):
    code = """
import numpy as np
from hardsplat.api import Camera, Gaussians, Renderer
splat = Gaussians(means=[[0, 0, 2]], quats=[[1, 0, 0, 0]], scales=[[.2, .2, .2]], opacities=[.5], sh=np.ones((1, 1, 3)))
renderer = Renderer()
image, T = renderer.forward(splat, Camera(np.eye(4), [[16, 0, 8], [0, 16, 8], [0, 0, 1]], 16, 16))
print(image.max() > 0.3, renderer.backward(np.ones((16, 16, 3)))["sh"].min() > 0)
"""
    assert installed("-c", code).split() == ["True", "True"]


def test_an_installed_wheel_trains_with_a_preset_by_name(installed, tmp_path):
    make_scene(tmp_path / "scene", views=9, width=32, height=24, points=60, supersample=1)
    train = ("-m", "hardsplat", "train", tmp_path / "scene", "--max-steps", "3", "--quiet", "--result-dir")
    installed(*train, tmp_path / "result", "--config", "quick")
    assert (tmp_path / "result" / "splats.ply").stat().st_size > 0
    assert "sh_degree = 1\n" in (tmp_path / "result" / "config.toml").read_text()
    installed(*train, tmp_path / "stochastic", "--gradient", "stochastic", "--strategy", "mcmc")
    assert (tmp_path / "stochastic" / "splats.ply").stat().st_size > 0


def test_without_a_compiler_the_build_says_what_it_needs(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "hardsplat.catalog", tmp_path / "spirv"],
        cwd=ROOT,
        env=os.environ | {"PATH": str(tmp_path), "HARDSPLAT_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and done.stderr.startswith("hardsplat: error: no GLSL compiler: install glslang"), done.stderr

"""Shader modules as other drivers take them: valid, one type of pointer a buffer, fit for Metal."""

import os
import shutil
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from hardsplat.gpu.passes import shader
from hardsplat.gpu.passes.pipelines import ANY_PLANES
from hardsplat.gpu.passes.reflect import Module, reflect
from hardsplat.gpu.passes.shader import ShaderSource
from hardsplat.tables import quantities
from tests.helpers import needs
from tools import catalog

TOOLS = {  # executable: its command, and messages of its own limits by a word of the source
    "spirv-val": (
        ["--target-env", "vulkan1.2", "--scalar-block-layout"],
        {"quads_full": "Invalid capability operand: 5087"},  # quad control, before 2023.3
    ),
    "spirv-cross": (
        ["--msl", "--msl-version", "20300"],
        {".geom": "not supported in this execution model"},  # Metal has no geometry shaders
    ),
}


@pytest.fixture(scope="module")
def modules() -> dict[ShaderSource, bytes]:
    sources = list(dict.fromkeys(catalog.sources()))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return dict(zip(sources, threads.map(shader.compile_source, sources)))


@pytest.mark.parametrize("tool", TOOLS)
def test_modules_are_accepted(modules, tmp_path, tool):
    if not shutil.which(tool):
        pytest.skip(needs.lacking(f"no {tool}"))
    arguments, limits = TOOLS[tool]

    def refused(each: tuple[int, tuple[ShaderSource, bytes]]) -> str:
        number, (source, binary) = each
        (file := tmp_path / f"{number}.spv").write_bytes(binary)
        done = subprocess.run([tool, *arguments, str(file)], capture_output=True, text=True)
        known = any(word in str(source) and why in done.stderr for word, why in limits.items())
        return "" if done.returncode == 0 or known else f"{source}: {done.stderr}"

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        wrong = [said for said in threads.map(refused, enumerate(modules.items())) if said]
    assert not wrong, f"{len(wrong)} of {len(modules)} modules: {wrong[0]}"


BINDING, SET = 33, 34  # decorations


def two_types(binary: bytes) -> list[str]:
    """Where a module may reach one buffer by pointers of two types."""
    places = [each for each in Module(binary).decorations.values() if BINDING in each]
    bound = Counter((place[SET], place[BINDING]) for place in places)
    found = [f"binding {binding}" for (_, binding), n in bound.items() if n > 1]
    opened = set(reflect(binary).planes)
    for name in opened & set(ANY_PLANES):
        named = {n for kind in quantities.ORDER for n in ANY_PLANES[name](kind)}
        found += [f"{name} and {other}" for other in sorted(opened & named)]
    return found


def test_no_buffer_is_reached_by_two_types(modules):
    """MoltenVK translates that wrongly."""
    wrong = {source: found for source, binary in modules.items() if (found := two_types(binary))}
    assert not wrong


HEAD = '#include "common.glsl"\n#include "contract/trained.glsl"\nlayout(local_size_x = 1) in;\n'
TABLE = "UNIFORM_planes\n"
ANY = "layout(buffer_reference, scalar) buffer any_value_plane { vec4 at[]; };\n"
BLOCK = "layout(set = 0, binding = 900) buffer {0} {{ {1} {0}_x[]; }};\n"
TWICE = [
    (
        TABLE + ANY + "VALUE_means(restrict)\n",
        "means(0) = any_value_plane(planes.at[0].value).at[0].xyz;",
        "any_value and means",
    ),
    (
        BLOCK.format("a", "uint") + BLOCK.format("b", "float"),
        "a_x[0] = uint(b_x[0]);",
        "binding 900",
    ),
]


@pytest.mark.parametrize("head, body, words", TWICE, ids=[words for _, _, words in TWICE])
def test_two_types_are_found(tmp_path, monkeypatch, head, body, words):
    (tmp_path / "x.comp").write_text(f"{HEAD}{head}void main() {{ {body} }}\n")
    (tmp_path / "include").symlink_to(shader.SHADERS / "include")
    monkeypatch.setattr(shader, "SHADERS", tmp_path)
    monkeypatch.setenv("HARDSPLAT_CACHE", str(tmp_path / "cache"))
    found = two_types(shader.compile_source(ShaderSource.of("x.comp")))
    assert any(words in each for each in found), found

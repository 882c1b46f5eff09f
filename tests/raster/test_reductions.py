"""Reductions alone, in a compute shader whose subgroups hold what fragment shaders' may."""

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.passes import shader
from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.gpu.passes.pipelines import build
from hardsplat.tables.gradients import ATOMICS, REDUCTIONS
from tests.helpers.drawing import fresh_seed

LANES = 256 * contract.CONSTANTS["GROUP"]
GRADIENTS, STRIDE = contract.CONSTANTS["GRADIENTS"], contract.CONSTANTS["GRADIENT_STRIDE"]
SPLATS = 500
ASLEEP, IDLE, CONTRIBUTING = range(3)

# A lane's key: 4 * splat + its state. Its moments are small integers, so that sums are exact in
# every order.
KERNEL = """
#include "common.glsl"
#include "contract/sort.glsl"
#include <atomics>
#include <reduce>
layout(local_size_x = GROUP) in;
BUFFER_keys(readonly)
void main() {
    uint lane = gl_GlobalInvocationID.x, key = keys[lane], state = key & 3u;
    if (state == 0u) return;
    float m[GRADIENTS];
    for (uint i = 0u; i < GRADIENTS; ++i)
        m[i] = state == 2u ? float((7u * lane + 3u * i) % 16u) : 0.0;
    reduce_gradients(key >> 2u, state == 2u, m);
}
"""

THRESHOLDS = {name: (1, 2, 5, 33) if row.threshold else (0,) for name, row in REDUCTIONS.items()}
RUNS = [(name, threshold) for name, values in THRESHOLDS.items() for threshold in values]


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    for folder in shader.SHADERS.iterdir():
        (tmp_path / folder.name).symlink_to(folder)
    (tmp_path / "kernel.comp").write_text(KERNEL)
    monkeypatch.setattr(shader, "SHADERS", tmp_path)
    return "kernel.comp"


def lanes(rng) -> tuple[np.ndarray, np.ndarray]:
    """Returns splats and states: a quad has one splat, as in a draw; none to all lanes add."""
    quads = LANES // 4
    # Quads in a row that share a splat, per 64 lanes.
    run = rng.choice([1, 2, 4, 16], quads // 16, p=[0.5, 0.2, 0.1, 0.2])
    first = np.arange(quads) // run.repeat(16) * run.repeat(16)
    # out of few, so that a splat also comes back in its subgroup, after another one
    splat = rng.integers(0, SPLATS - 3, quads // 16).repeat(16) + rng.integers(0, 3, quads)[first]
    busy, awake = (rng.choice([0, 0.1, 0.5, 0.9, 1], LANES // 64).repeat(64) for _ in range(2))
    idle = np.where(rng.random(LANES) < awake, IDLE, ASLEEP)
    return splat.repeat(4), np.where(rng.random(LANES) < busy, CONTRIBUTING, idle)


def reduced(device, kernel, reduction: str, threshold: int, atomics: str, splat, state):
    """(SPLATS, STRIDE) what a reduction leaves. atomics: file that fills the slot of that name."""
    row = REDUCTIONS[reduction]
    keys = Buffer(device, 4 * LANES, "keys")
    keys.upload((4 * splat + state).astype(np.uint32))
    sums = Buffer(device, 4 * STRIDE * SPLATS, "d_splats2d")
    sums.fill(0)
    slots = {"reduce": row.slot, "atomics": atomics}
    slots |= {"quads": "reduce/quads_plain.glsl"} if row.quads else {}
    spec = {"THRESHOLD": threshold} if row.threshold else {}
    recorder = Recorder(device, {"keys": keys, "d_splats2d": sums})
    names = ("keys", "d_splats2d"), ("d_splats2d",)
    owner = ComputePass("reduce", kernel, *names, spec, slots)
    recorder.run(build(device, owner), threads=(LANES,))
    recorder.end().run_once()
    got = sums.download(np.float32).reshape(SPLATS, STRIDE)
    recorder.destroy()
    keys.destroy()
    sums.destroy()
    return got


@pytest.mark.parametrize("atomics", ATOMICS)
@pytest.mark.parametrize("reduction, threshold", RUNS)
def test_sums_are_exact(device, kernel, reduction, threshold, atomics):
    needs, seed = (*REDUCTIONS[reduction].needs, *ATOMICS[atomics].needs), fresh_seed()
    if missing := device.capabilities.missing(needs):
        pytest.skip(f"lacks {', '.join(missing)}")
    splat, state = lanes(np.random.default_rng(seed))
    got = reduced(device, kernel, reduction, threshold, ATOMICS[atomics].slot, splat, state)
    expected = np.zeros((SPLATS, STRIDE))
    lane = np.flatnonzero(state == CONTRIBUTING)
    moment = np.arange(GRADIENTS)
    np.add.at(expected[:, :GRADIENTS], splat[lane], (7 * lane[:, None] + 3 * moment) % 16)
    np.testing.assert_array_equal(got, expected, err_msg=f"seed {seed}")

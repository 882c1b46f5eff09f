"""Working sets, and training out of core, whose results are those on the device."""

import json

import numpy as np
import pytest

from hardsplat.base.errors import OutOfMemory
from hardsplat.contract.footprint import bytes_per_splat, host_bytes, packed
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.usage import memory_limit
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.io.scenes.scene import load_scene
from hardsplat.raster.backends import training_needs
from hardsplat.study import doctor
from hardsplat.train.job.facts import Views, fitting
from hardsplat.train.run.trainer import Trainer
from hardsplat.train.session import drawing
from tests.helpers.tables import COMMON, refuses
from tests.helpers.training import job_of, open_session, same_state, settings

MIB = 1 << 20
EXACT = dict(rasterizer="tiled", tile_backward="gather", moments="bfloat16", visible_adam=True)
EXACT |= dict(sh_degree=2, sh_degree_interval=4, shN_every=2, max_steps=300)
CASES = {
    "none": dict(exposure="affine"),
    "adaptive": dict(reset_every=10, prune_opa=0.005),
    "mcmc": dict(init_opa=0.5, opacity_reg=0.01, scale_reg=0.01, moments="float32"),
    "budget": dict(score_every=2, grow_absolute=1e-5, refine_start_iter=0, cap_max=20_000),
}


def trained(device, scene, **changes):
    """A session after 25 steps, with what its strategy does between them and its orders."""
    session = open_session(device, settings(scene, **EXACT | changes))
    for _ in range(5):
        session.run(5)
        session.refine()
    session.drawing.resort()
    session.run(5)
    session.drain()
    return session


@pytest.mark.parametrize("case", CASES)
def test_splats_are_those_of_training_on_the_device(device, scene, case, monkeypatch):
    """Every bit, while the working set has part of the splats and grows with them."""
    monkeypatch.setattr(drawing, "MORE", 0)
    monkeypatch.setattr(drawing, "TIMES", (1.15,))
    monkeypatch.setattr(drawing, "LEAST", 1.05)
    how = dict(strategy=case) | CASES[case]
    inside = trained(device, scene, **how).snapshot()
    outside = trained(device, scene, out_of_core="on", **how)
    assert same_state(inside, outside.snapshot())
    if how["strategy"] == "budget":
        assert same_state(inside, trained(device, scene, packed=True, **how).snapshot())
    assert outside.drawing.working.capacity < outside.store.capacity
    assert (case == "none") == (outside.store.count() == len(load_scene(scene).points))
    assert not any(plane.host for plane in outside.store.parameters.buffers("means"))
    sizes = outside.store.parameters.nbytes()
    own = "shN", "adam_shN"
    assert all(inside.buffers[each].any() for each in own)
    assert all(plane.host for each in own for plane in outside.store.parameters.buffers(each))
    assert sizes[own[0]] == sizes[own[1]] == 0 < sizes["means"]


def test_colours_that_no_step_sees_stay(device, scene):
    """In the host's memory, values and moments."""
    session = open_session(device, settings(scene, out_of_core="on", strategy="none", **EXACT))
    before, steps = session.snapshot(), 4
    for name in ("shN", "adam_shN"):  # NaN would spread where it is read
        values = before.buffers[name].copy()
        session.store.parameters.write(name, np.full_like(values, np.nan))
    seen = np.zeros(before.splats, bool)
    for _ in range(steps):
        session.run(1)
        session.drain()
        found = session.resources["working"].download(np.uint32)
        seen[found[: session.drawing.working.splats.counts["splats"]]] = True
    assert 0 < (~seen).sum() < before.splats
    after = session.snapshot()
    for name in {*COMMON} - {"shN", "sh0"}:
        was, now = (state.buffers[name][:, ~seen] for state in (before, after))
        assert np.array_equal(now, was)
    assert np.isnan(after.buffers["shN"][:, ~seen]).all()


def test_a_working_set_grows_with_what_steps_see(device, scene, monkeypatch):
    monkeypatch.setattr(drawing, "MORE", 0)
    session = open_session(device, settings(scene, out_of_core="on", strategy="none", **EXACT))
    ample = session.drawing.working.capacity
    session._visible.share = 0.05
    session._rebuild()
    n = session.store.count()
    assert session.drawing.working.capacity == int(drawing.TIMES[0] * 0.05 * n) < ample // 2
    for _ in range(12):
        session.run(3)
        session.drain()
    assert session.drawing.working.splats.counts["wanted"] <= session.drawing.working.capacity
    assert session.drawing.working.capacity > 3 * int(drawing.TIMES[0] * 0.05 * n)


def test_auto_where_memory_is_short(device, scene, tmp_path, monkeypatch, capfd):
    """A run whose splats do not fit says so, trains out of core, and resumes so."""
    config = settings(scene, sh_degree=3)
    views, needs = Views([], (1, 1), 1.0), (config, "hardware")
    job = job_of(device, config, views, splats=fitting(device, *needs))
    assert not job.out_of_core and not any(each.note for each in job.decisions)
    monkeypatch.setattr(device, "memory_bytes", MIB)
    most = fitting(device, *needs)
    assert not job_of(device, config, views, splats=most).packed
    few, many = (job_of(device, config, views, splats=n) for n in (most + 1, 3 * most))
    assert few.packed and not few.out_of_core and many.packed and many.out_of_core
    first, second = few.decisions[-1].note, many.decisions[-1].note
    assert first.startswith(f"{most + 1:,} splats are planned, {device.name} holds {most:,}: ")
    assert "(--packed)" in first and "go to the host's memory" in second
    packed = job_of(device, config.changed(packed=True), views, splats=3 * most)
    assert packed.out_of_core and packed.config.adam.visible_adam
    assert not job_of(device, config.changed(out_of_core="off"), views, splats=1 << 40).packed
    own = dict(sh_degree=3, strategy="none", init_type="random", init_num_pts=1_300, max_steps=6)
    own |= dict(rasterizer="tiled", init_extent=20.0)
    metrics = Trainer(settings(scene, tmp_path / "run", **own), device=device).train()
    out = capfd.readouterr().out
    assert "note: 1,300 splats are planned" in out and "GiB of the host's" in out
    config = (tmp_path / "run" / "config.toml").read_text()
    assert 'out_of_core = "on"' in config and "visible_adam = true" in config
    assert metrics["splats"] == 1_300 and metrics["steps"] == 6
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["memory_peak"]["host"] > MIB


def test_stochastic_gradients_stay_on_the_device(device, scene):
    config = settings(scene, gradient="stochastic", strategy="mcmc")
    views = Views([], (1, 1), 1.0)
    assert not job_of(device, config, views, splats=1 << 40).packed
    flags = {"--packed": dict(packed=True), "--out-of-core on": dict(out_of_core="on")}
    for flag, named in flags.items():
        changed = config.changed(**named)
        refuses(f"^{flag} needs --gradient analytic$", job_of, device, changed, views, splats=1)


def test_less_room_where_memory_is_short(device, scene, monkeypatch):
    """Down to what steps have seen; with less than that a session does not begin."""
    tried, make = [], drawing.WorkingSet

    def limited(device, model, capacity, *rest):
        tried.append(capacity)
        if capacity > most:
            raise OutOfMemory("no memory for it")
        return make(device, model, capacity, *rest)

    monkeypatch.setattr(drawing, "MORE", 0)
    monkeypatch.setattr(drawing, "TIMES", (1.2, 1.1, 1.0))  # less than all splats
    monkeypatch.setattr(drawing, "WorkingSet", limited)
    config, most = settings(scene, packed=True, strategy="none", **EXACT), 1 << 30
    seen = open_session(device, config)._visible.share * len(load_scene(scene).points)
    for times in (1.15, 1.05):
        most, before = int(seen * times), len(tried)
        session = open_session(device, config)
        session.run(3)
        assert session.drawing.working.capacity == tried[-1] <= most < tried[before]
    most = int(seen / 2)
    with pytest.raises(OutOfMemory, match="--out-of-core on takes less: no memory for it"):
        open_session(device, config)


def test_what_a_splat_takes():
    """At SH degree 3 with halves: 45 numbers and their moments on the host, 14 on the device."""
    each = training_needs("tiled", 3, "bfloat16")
    assert host_bytes(each) == 45 * (4 + 2 * 2)
    for outside, numbers in ((True, 14), (False, 59)):
        inside = bytes_per_splat(packed(each, 0.0, outside))
        assert inside == pytest.approx(numbers * (4 + 2 * 2) + 2 * 4, abs=0.1)
        more = bytes_per_splat(packed(each, 0.05, outside)) - inside
        assert more == pytest.approx(0.05 * bytes_per_splat(each))


def test_a_limit_of_memory(monkeypatch):
    for word, found in (("", 0), ("8G", 8 << 30), ("1.5 GiB", 3 << 29), ("64mb", 64 << 20)):
        monkeypatch.setenv("HARDSPLAT_MEMORY", word)
        assert memory_limit() == found
    for word in ("8", "G", "-1G", "1e3G", "99999999G"):
        monkeypatch.setenv("HARDSPLAT_MEMORY", word)
        refuses("write it as 8G or 512M", Device)
    assert "not ready: HARDSPLAT_MEMORY is 99999999G" in doctor.report()[0]
    monkeypatch.setenv("HARDSPLAT_MEMORY", "64M")
    limited = Device()
    try:
        assert limited.memory_bytes == 64 * MIB
        first = Buffer(limited, 40 * MIB, "first")
        Buffer(limited, 40 * MIB, "far", host=True).destroy()
        assert limited.memory_budget() == (40 * MIB, 64 * MIB)
        with pytest.raises(OutOfMemory, match="is out of memory: second needs 40 MiB"):
            Buffer(limited, 40 * MIB, "second")
        first.destroy()
        Buffer(limited, 40 * MIB, "second").destroy()
    finally:
        limited.close()

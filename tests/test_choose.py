"""What `auto` chooses, by made-up times; what it remembers; and once for real, on this device."""

import json
import logging
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from hardsplat.api import Renderer
from hardsplat.cli import main
from hardsplat.errors import OutOfMemory, UserError
from hardsplat.gpu.context import DeviceLost
from hardsplat.gpu.shader import Source
from hardsplat.raster import choose as module
from hardsplat.raster import trial
from hardsplat.raster.choose import BUDGET, choose, greedy, lines, remembered
from hardsplat.raster.hardware import rows_of, sources
from hardsplat.raster.rows import SEGMENTS, HardwareOptions, Rows
from hardsplat.raster.trial import SIZES, Trial
from hardsplat.raster.trial import scene as trial_scene

SOURCES = set()
KNOBS = {"shape": ["quad", "triangle", "geometry"], "block": ["2x2", "1x1"], "atomics": ["native"]}
FIRST = {"shape": "quad", "block": "2x2", "atomics": "native", "reduction": "hybrid"}
START = {knob: FIRST[knob] for knob in KNOBS}


def first(options) -> dict:
    """FIRST, where the options leave it open."""
    return {knob: row if getattr(options, knob) == "auto" else getattr(options, knob) for knob, row in FIRST.items()}


class Clock:
    """A Trial whose times are given: (shape, block) -> ms, or a list of them in turn, or None for what does not run. Its frames take `seconds` each."""

    def __init__(self, times, seconds=0.0):
        self.times, self.seconds, self.spent, self.asked = times, seconds, 0.0, []

    def prepare(self, candidates):
        assert all(isinstance(options, HardwareOptions) for options in candidates)

    def attempt(self, options, best=float("inf")):
        self.asked.append((options.shape, options.block))
        self.spent += self.seconds
        ms = self.times.get((options.shape, options.block), 100.0)
        ms = ms.pop(0) if isinstance(ms, list) else ms
        return (ms, "") if ms is not None else (None, "no pipeline")

    def destroy(self):
        self.asked.append("destroyed")


def rows(times, **how):
    return greedy(Clock(times, **how), HardwareOptions(), first, KNOBS)


def test_the_fastest_is_chosen_knob_by_knob():
    found, ms = rows({("quad", "2x2"): 10.0, ("triangle", "2x2"): 8.0, ("geometry", "2x2"): 9.0, ("triangle", "1x1"): 5.0, ("quad", "1x1"): 1.0})
    assert found == {"shape": "triangle", "block": "1x1", "atomics": "native"}
    assert ms == {"shape": {"quad": 10.0, "triangle": 8.0, "geometry": 9.0}, "block": {"2x2": 8.0, "1x1": 5.0}}


def test_knobs_to_come_have_the_rows_that_suit_what_is_timed():
    """Triangles begin with blocks of 1x1. A box is refused, so it is not timed."""

    def first_with(options):
        if options.shape == "geometry":
            raise UserError("no such box")
        return first(replace(options, block="1x1") if options.shape == "triangle" and options.block == "auto" else options)

    clock = Clock({("quad", "2x2"): 10.0, ("triangle", "1x1"): 8.0, ("triangle", "2x2"): 7.9})
    assert greedy(clock, HardwareOptions(), first_with, KNOBS)[0] == {"shape": "triangle", "block": "1x1", "atomics": "native"}
    assert not {("triangle", "2x2"), ("geometry", "2x2")} & set(clock.asked[:-1])


def test_a_knob_of_which_no_other_row_goes_is_remembered_too():
    def no_other(options):
        if options.shape not in ("auto", "quad") or options.block not in ("auto", "2x2"):
            raise UserError("no such")
        return first(options)

    assert greedy(Clock({("quad", "2x2"): 10.0}), HardwareOptions(), no_other, KNOBS) == (START, {"shape": {"quad": 10.0}, "block": {"2x2": 10.0}})


@pytest.mark.parametrize("ms, chosen", [(9.8, "quad"), (9.6, "triangle")])
def test_the_first_stays_unless_another_is_three_percent_faster(ms, chosen):
    assert rows({("quad", "2x2"): 10.0, ("triangle", "2x2"): ms})[0]["shape"] == chosen


def test_the_best_is_timed_again_before_it_is_replaced():
    """Clocks rise with work: the first time of all is too long."""
    found, ms = rows({("quad", "2x2"): [10.0, 7.9], ("triangle", "2x2"): 8.0})
    assert found["shape"] == "quad" and ms["shape"] == {"quad": 7.9, "triangle": 8.0, "geometry": 100.0}


def test_luck_does_not_win():
    """The second time it is no faster than the first row."""
    found, ms = rows({("quad", "2x2"): 10.0, ("geometry", "2x2"): [5.0, 9.9]})
    assert found == START and ms["shape"] == {"quad": 10.0, "triangle": 100.0, "geometry": 9.9}


def test_what_does_not_run_is_left_out(caplog):
    caplog.set_level(logging.DEBUG, "hardsplat")
    found, ms = rows({("quad", "2x2"): 10.0, ("triangle", "2x2"): None, ("geometry", "2x2"): 5.0})
    assert found["shape"] == "geometry" and "triangle" not in ms["shape"]
    assert "  shape triangle left out: no pipeline" in caplog.messages
    assert rows({("quad", "2x2"): None, ("geometry", "2x2"): 5.0}) == (START, {})


def test_time_ends_the_search():
    found, ms = rows({("quad", "2x2"): 10.0, ("triangle", "2x2"): 9.9, ("geometry", "2x2"): 1.0, ("quad", "1x1"): 1.0}, seconds=BUDGET / 2)
    assert found == START and ms == {"shape": {"quad": 10.0, "triangle": 9.9}, "block": {"2x2": 10.0}}


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HARDSPLAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HARDSPLAT_AUTO", "time")
    return tmp_path / "cache"


@pytest.fixture
def ask(cache, monkeypatch):
    """ask(times, device, options): the options chosen, and whether they were timed for it."""

    def ask(times, device=None, options=None, knobs=KNOBS):
        clock = Clock(times)
        monkeypatch.setattr(module.Trial, "fitting", lambda *given: clock)
        options = options or HardwareOptions()
        free = {knob: names for knob, names in knobs.items() if getattr(options, knob) == "auto"}
        return choose(device or machine(), "hardware", options, first, free, None, lambda options: SOURCES), bool(clock.asked)

    return ask


def machine(driver="1.0", timestamp_ns=1.0):
    kept = {}
    return SimpleNamespace(
        name="Some GPU", physical=SimpleNamespace(driver=driver, kind="discrete GPU"), timestamp_ns=timestamp_ns, shared=lambda name, make: kept.setdefault(name, make())
    )


TRIANGLE = {("quad", "2x2"): 10.0, ("triangle", "2x2"): 8.0}
STRIP = {("quad", "2x2"): 10.0, ("geometry", "2x2"): 8.0}


def test_one_that_is_faster_but_not_by_enough_is_named_as_such(ask, caplog):
    caplog.set_level(logging.DEBUG, "hardsplat")
    assert ask({("quad", "2x2"): 10.0, ("triangle", "2x2"): 9.8})[0].shape == "quad"
    assert "  shape quad: 10 ms, next triangle: 9.8 ms, less than 3 % faster" in caplog.messages


def test_a_choice_is_remembered(ask, caplog):
    caplog.set_level(logging.DEBUG, "hardsplat")
    first, timed = ask(TRIANGLE)
    assert timed and (first.shape, first.block, first.atomics, first.reduction) == ("triangle", "2x2", "native", "auto")
    assert caplog.messages == [
        "choosing variants for Some GPU, once ...",
        "  shape triangle: 8 ms, next quad: 10 ms",
        "  block 2x2: 8 ms, next 1x1: 100 ms",
        "  atomics native: the only one that runs",
    ]
    caplog.clear()
    assert ask(STRIP) == (first, False)
    assert caplog.messages[0].startswith("variants for Some GPU, remembered from 20") and caplog.messages[1] == "  shape triangle: 8 ms, next quad: 10 ms"


def test_another_driver_device_shader_row_or_scene_is_timed_anew(ask, monkeypatch, tmp_path):
    ask(TRIANGLE)
    assert ask(STRIP, machine(driver="1.1"))[0].shape == "geometry"
    more = ask(STRIP, knobs={**KNOBS, "shape": ["quad", "geometry"]})  # one that ran does not any more
    assert more[1] and more[0].shape == "geometry"
    assert ask(TRIANGLE)[1]
    (tmp_path / "new.comp").write_text("// one")
    monkeypatch.setattr(module.shader, "SHADERS", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "SOURCES", {Source.of("new.comp")})
    assert ask(STRIP)[0].shape == "geometry" and not ask(TRIANGLE)[1]
    (tmp_path / "other.comp").write_text("// of no candidate")
    assert not ask(TRIANGLE)[1]
    (tmp_path / "new.comp").write_text("// changed")
    assert ask(TRIANGLE)[1]
    monkeypatch.setitem(FIRST, "block", "1x1")
    assert ask(TRIANGLE)[1] and not ask(TRIANGLE)[1]
    monkeypatch.setattr(trial, "scene", lambda width, height: trial_scene(width, height + 1))
    assert ask(TRIANGLE)[1] and not ask(TRIANGLE)[1]


def test_what_is_named_stays_and_has_its_own_choice(ask):
    assert ask(TRIANGLE)[0].shape == "triangle"
    named, timed = ask({("geometry", "2x2"): 10.0, ("geometry", "1x1"): 5.0}, options=HardwareOptions(shape="geometry"))
    assert timed and (named.shape, named.block) == ("geometry", "1x1")
    assert ask({}, options=HardwareOptions(shape="geometry")) == (named, False)
    other, timed = ask(STRIP, options=HardwareOptions(format="unorm8"))
    assert timed and (other.format, other.shape) == ("unorm8", "geometry") and ask({})[0].shape == "triangle"
    assert ask({}, options=HardwareOptions(shape="geometry", block="1x1")) == (HardwareOptions(shape="geometry", block="1x1", atomics="native"), False)


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"choices": []}', '{"choices": {"hardware": {"rows": {}}}}', "no row", "no time", "no date"])
def test_a_damaged_file_is_ignored_and_rewritten(ask, cache, damage):
    ask(TRIANGLE)
    path = next(cache.rglob("variants/*.json"))
    whole = json.loads(path.read_text())
    found = next(iter(whole["choices"].values()))
    if damage == "no row":
        found["rows"]["shape"] = "dodecahedron"
    elif damage == "no time":
        del found["ms"]["shape"]["triangle"]
    elif damage == "no date":
        found["date"] = None
    path.write_text(json.dumps(whole) if damage.startswith("no ") else damage)
    assert ask(STRIP)[0].shape == "geometry"
    assert ask({}) == (ask(TRIANGLE)[0], False) and ask({})[0].shape == "geometry"


def test_a_folder_that_cannot_be_written_costs_only_time(ask, cache):
    cache.touch()  # a file where the folder would be: root may write anywhere else
    device = machine()
    assert ask(TRIANGLE, device)[0].shape == "triangle"
    assert ask(STRIP, device) == (ask(TRIANGLE, device)[0], False)  # known to the process
    assert ask(STRIP)[0].shape == "geometry"


@pytest.mark.parametrize("device, auto", [(machine(timestamp_ns=0.0), "time"), (machine(), "first")])
def test_without_timing_the_first_are_taken(ask, cache, monkeypatch, device, auto):
    monkeypatch.setenv("HARDSPLAT_AUTO", auto)
    assert ask(STRIP, device) == (HardwareOptions(**START), False) and not cache.exists()


def test_an_environment_that_means_nothing(ask, monkeypatch):
    monkeypatch.setenv("HARDSPLAT_AUTO", "fast")
    with pytest.raises(UserError, match="HARDSPLAT_AUTO is fast: choose time or first"):
        ask(STRIP)


def test_no_memory_for_a_trial_leaves_the_first_and_is_not_remembered(ask, cache, monkeypatch):
    ask(TRIANGLE, machine("other"))  # replaces Trial.fitting, which is replaced again:

    def full(*given):
        raise OutOfMemory("full")

    monkeypatch.setattr(module.Trial, "fitting", full)
    free = {knob: KNOBS[knob] for knob in START}
    assert choose(machine(), "hardware", HardwareOptions(), first, free, None, lambda options: set()) == HardwareOptions(**START)
    assert len(list(cache.rglob("variants/*.json"))) == 1


# ---- on this device


SHAPES_ONLY = dict(block="1x1", reduction="atomic", atomics="cas", segments=1)


def test_on_this_device(device, cache, capsys, monkeypatch):
    """Whatever is the fastest here: it was timed, beats or equals all that were, is drawn with, and the doctor shows it."""
    monkeypatch.setattr(module, "BUDGET", float("inf"))  # whatever else the machine does
    monkeypatch.setitem(device._shared, "choices", {})
    with Renderer(device, **SHAPES_ONLY) as renderer:
        renderer.forward(*trial_scene(32, 24))
        shape = renderer.raster.rows.names["shape"]
    ((given, found),) = remembered(device).items()
    assert given.startswith("hardware, format float16") and "block 1x1" in given
    assert list(found["rows"]) == [knob for knob in ("ordering", "shape") if knob in found["candidates"]]
    ms = found["ms"]["shape"]
    assert found["rows"]["shape"] == shape and ms[shape] <= min(ms.values()) / (1 - module.MARGIN) and len(ms) > 1
    assert main(["doctor"]) == 0
    assert lines(found)[0] in capsys.readouterr().out


@pytest.mark.parametrize("flag, levels", [("--verbose", {"INFO", "DEBUG"}), ("--no-verbose", {"INFO"}), ("--quiet", set())])
def test_the_program_says_it(scene, on_device, cache, capsys, monkeypatch, tmp_path, flag, levels):
    monkeypatch.setitem(on_device._shared, "choices", {})
    flags = [
        "--rasterizer",
        "hardware",
        "--block",
        "1x1",
        "--reduction",
        "atomic",
        "--atomics",
        "cas",
        "--segments",
        "1",
        "--max-steps",
        "2",
        "--result-dir",
        str(tmp_path / "run"),
        flag,
    ]
    assert main(["train", str(scene), *flags]) == 0
    said = capsys.readouterr().err
    assert (f"choosing variants for {on_device.name}, once ..." in said) == ("INFO" in levels)
    (found,) = remembered(on_device).values()
    assert (lines(found)[0] in said) == ("DEBUG" in levels)
    saved = json.loads((tmp_path / "run" / "metrics.json").read_text())["variants"]
    assert saved["shape"] == found["rows"]["shape"] and saved["atomics"] == "cas"


def test_a_candidate_that_fails_and_a_device_that_is_lost(device, monkeypatch):
    options = HardwareOptions(**{**SHAPES_ONLY, "shape": "quad", "ordering": Rows.first(device, HardwareOptions()).names["ordering"]})

    def trial(make):
        return Trial(device, make, lambda o: sources(device, o))

    def refuse(error):
        def make(*given, **named):
            raise error

        return make

    for error, why in ((OutOfMemory("full"), "OutOfMemory: full"), (RuntimeError("driver\nlines"), "RuntimeError: driver")):
        one = trial(refuse(error))
        one.prepare([options, replace(options, shape="no such")])
        assert one.attempt(options) == (None, why) and one.spent == 0
        one.destroy()
    one = trial(refuse(DeviceLost("gone")))
    with pytest.raises(DeviceLost):
        one.attempt(options)
    one.destroy()


def test_the_scene_looks_as_it_says():
    width, height = SIZES[0]
    gaussians, camera = trial_scene(width, height)
    depth, focal = gaussians.means[:, 2], camera.K[0, 0]
    half = gaussians.scales * (np.sqrt(2 * np.log(255 * gaussians.opacities)) * focal / depth)[:, None]
    np.testing.assert_allclose(np.median(half, axis=0), (3.7, 1.8, 1.8), rtol=0.05)  # the median of 150 000 is that of the distribution to 1 %
    assert len(gaussians) == width * height // 2
    assert 80 < (np.pi * half[:, 0] * half[:, 1]).sum() / (width * height) < 100
    x, y = (gaussians.means[:, i] / depth * focal + camera.K[i, 2] for i in (0, 1))
    assert x.min() >= 0 and x.max() <= width and y.min() >= 0 and y.max() <= height


def test_a_slow_device_gets_a_smaller_scene(device, monkeypatch):
    """Never the largest on a CPU; elsewhere the first that is drawn in time, or the last."""
    asked = []
    monkeypatch.setattr(Trial, "attempt", lambda self, options, best: (asked.append((self.camera.width, self.camera.height)) or times[asked[-1]], ""))
    for kind, quick, sizes in (("CPU", None, SIZES[-1:]), ("discrete GPU", SIZES[0], SIZES[:1]), ("integrated GPU", SIZES[1], SIZES[:2]), ("other", None, SIZES)):
        times = {size: 5.0 if size == quick else 50.0 for size in SIZES}
        monkeypatch.setattr(device, "physical", replace(device.physical, kind=kind))
        Trial.fitting(device, None, lambda options: set(), None).destroy()
        assert tuple(asked) == tuple(sizes)
        asked.clear()


def test_numbers_of_segments_are_timed_and_remembered(device, cache, monkeypatch):
    """A number is one again when the file is read."""
    monkeypatch.setattr(module, "BUDGET", float("inf"))
    named = dict(block="2x2", reduction="atomic", atomics="native", shape="quad", ordering=Rows.first(device, HardwareOptions()).names["ordering"])
    found = []
    for _ in range(2):
        monkeypatch.setitem(device._shared, "choices", {})
        found.append(rows_of(device, HardwareOptions(**named)).segments)
    (kept,) = remembered(device).values()
    assert found[0] == found[1] == kept["rows"]["segments"] and set(kept["ms"]["segments"]) == {str(n) for n in SEGMENTS}

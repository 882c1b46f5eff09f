"""What `auto` chooses, by made-up times; what it remembers; and once for real, on this device."""

import json
import logging
import sys
from threading import Event
from types import SimpleNamespace

import pytest

from hardsplat.cli import main
from hardsplat.gpu.passes.shader import ShaderSource
from hardsplat.raster.core import choose as module
from hardsplat.raster.core.choose import BUDGET, Search, lines, remembered, trial_scene
from hardsplat.raster.core.resolve import threshold_of, thresholds
from hardsplat.raster.hardware.rasterizer import rows_of as hardware_rows
from hardsplat.raster.hardware.rows import THRESHOLD as HYBRID
from hardsplat.raster.hardware.rows import HardwareOptions
from hardsplat.raster.tiled.rasterizer import rows_of as tiled_rows_of
from hardsplat.raster.tiled.rows import THRESHOLD as TILED
from hardsplat.raster.tiled.rows import TiledOptions

SOURCES = set()
KNOBS = {"shape": ["quad", "triangle", "geometry"], "block": ["2x2", "1x1"], "atomics": ["native"]}
FIRST = {"shape": "quad", "block": "2x2", "atomics": "native", "reduction": "hybrid"}
START = {knob: FIRST[knob] for knob in KNOBS}


def first(options) -> dict:
    """FIRST, where the options leave it open."""
    given = {knob: getattr(options, knob) for knob in FIRST}
    return {knob: FIRST[knob] if row == "auto" else row for knob, row in given.items()}


class Clock:
    """A Trial of given times: "shape block" -> ms, a list in turn, or None if it does not run."""

    def __init__(self, times, seconds=0.0):
        self.times, self.seconds, self.spent, self.asked = times, seconds, 0.0, []

    def drawn(self, options):
        return f"{options.shape} {options.block}"

    def prepare(self, candidates):
        assert all(isinstance(options, HardwareOptions | TiledOptions) for options in candidates)

    def attempt(self, options, best=float("inf")):
        self.asked.append(name := self.drawn(options))
        self.spent += self.seconds
        ms = self.times.get(name, 100.0)
        ms = ms.pop(0) if isinstance(ms, list) else ms
        return (ms, "") if ms is not None else (None, "no pipeline")

    def destroy(self):
        self.asked.append("destroyed")


def timed(seconds=0.0, **times):
    """The search's finding and its times: of 2x2 blocks by shape, of quads in 1x1 as `small`."""
    names = {"small": "quad 1x1", "triangle_small": "triangle 1x1"}
    clock = Clock({names.get(name, f"{name} 2x2"): ms for name, ms in times.items()}, seconds)
    return Search("hardware", HardwareOptions(), first, KNOBS, None, None).greedy(clock)


def test_the_fastest_is_chosen_knob_by_knob():
    found, ms = timed(quad=10.0, triangle=8.0, geometry=9.0, triangle_small=5.0, small=1.0)
    assert found == {"shape": "triangle", "block": "1x1", "atomics": "native"}
    shapes = {"quad": 10.0, "triangle": 8.0, "geometry": 9.0}
    assert ms == {"shape": shapes, "block": {"2x2": 8.0, "1x1": 5.0}}


def test_the_best_is_timed_again_before_it_is_replaced():
    """Clocks rise with work: the first time of all is too long."""
    found, ms = timed(quad=[10.0, 7.9], triangle=8.0)
    assert found["shape"] == "quad"
    assert ms["shape"] == {"quad": 7.9, "triangle": 8.0, "geometry": 100.0}


def test_luck_does_not_win():
    """The second time it is no faster than the first row."""
    found, ms = timed(quad=10.0, geometry=[5.0, 9.9])
    assert found == START and ms["shape"] == {"quad": 10.0, "triangle": 100.0, "geometry": 9.9}


def test_time_ends_the_search():
    found, ms = timed(BUDGET / 2, quad=10.0, triangle=9.9, geometry=1.0, small=1.0)
    assert found == START
    assert ms == {"shape": {"quad": 10.0, "triangle": 9.9}, "block": {"2x2": 10.0}}


@pytest.fixture
def compiled():
    """Where shaders lie that were compiled before."""
    return module.shader.cache_dir() / "spirv"


@pytest.fixture
def cache(monkeypatch, tmp_path, compiled):
    monkeypatch.setenv("HARDSPLAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HARDSPLAT_AUTO", "time")
    return tmp_path / "cache"


@pytest.fixture
def ask(cache, monkeypatch):
    """ask(times, device, options): the options chosen, and whether they were timed for it."""

    def ask(times, device=None, knobs=KNOBS, **options):
        clock, device = Clock(times), device or machine()
        monkeypatch.setattr(module.Trial, "fitting", lambda *given: clock)
        options = HardwareOptions(**options)
        free = {knob: names for knob, names in knobs.items() if getattr(options, knob) == "auto"}
        sources = lambda options: SOURCES
        found = Search("hardware", options, first, free, None, sources).choose(device)
        return found, bool(clock.asked)

    return ask


def machine(driver="1.0", timestamp_ns=1.0):
    kept = {}
    shared = lambda name, make: kept.setdefault(name, make())
    physical = SimpleNamespace(name="Some GPU", driver=driver, kind="discrete GPU")
    named = dict(name="Some GPU", physical=physical, timestamp_ns=timestamp_ns)
    return SimpleNamespace(**named, shared=shared)


TRIANGLE = {"quad 2x2": 10.0, "triangle 2x2": 8.0}
STRIP = {"quad 2x2": 10.0, "geometry 2x2": 8.0}


def test_a_choice_is_remembered(ask, caplog):
    caplog.set_level(logging.DEBUG, "hardsplat")
    first, timed = ask(TRIANGLE)
    found = first.shape, first.block, first.atomics, first.reduction
    assert timed and found == ("triangle", "2x2", "native", "auto")
    assert caplog.messages == [
        "choosing variants for Some GPU, once ...",
        "  shape triangle: 8 ms, next quad: 10 ms",
        "  block 2x2: 8 ms, next 1x1: 100 ms",
        "  atomics native: the only one that runs",
    ]
    kept = caplog.messages[1]
    caplog.clear()
    assert ask(STRIP) == (first, False)
    assert caplog.messages[0].startswith("variants for Some GPU, remembered from 20")
    assert caplog.messages[1] == kept


def test_it_is_said_once_in_a_process(ask, caplog):
    caplog.set_level(logging.INFO, "hardsplat")
    on = machine()
    assert ask(TRIANGLE, on)[1] and ask(TRIANGLE, on, antialiased=True)[1]
    assert caplog.messages == ["choosing variants for Some GPU, once ..."]


def test_another_driver_device_shader_row_or_scene_is_timed_anew(ask, monkeypatch, tmp_path):
    ask(TRIANGLE)
    assert ask(STRIP, machine(driver="1.1"))[0].shape == "geometry"
    more = ask(STRIP, knobs={**KNOBS, "shape": ["quad", "geometry"]})  # one of them is gone
    assert more[1] and more[0].shape == "geometry"
    assert ask(TRIANGLE)[1]
    (tmp_path / "new.comp").write_text("// one")
    monkeypatch.setattr(module.shader, "SHADERS", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "SOURCES", {ShaderSource.of("new.comp")})
    assert ask(STRIP)[0].shape == "geometry" and not ask(TRIANGLE)[1]
    (tmp_path / "other.comp").write_text("// of no candidate")
    assert not ask(TRIANGLE)[1]
    (tmp_path / "new.comp").write_text("// changed")
    module.shader._file.cache_clear()  # as in another process
    assert ask(TRIANGLE)[1]
    monkeypatch.setitem(FIRST, "block", "1x1")
    assert ask(TRIANGLE)[1] and not ask(TRIANGLE)[1]
    monkeypatch.setattr(module, "trial_scene", lambda width, height: trial_scene(width, height + 1))
    assert ask(TRIANGLE)[1] and not ask(TRIANGLE)[1]


def test_without_timing_the_first_are_taken(ask, cache, monkeypatch):
    for device, auto in ((machine(timestamp_ns=0.0), "time"), (machine(), "first")):
        monkeypatch.setenv("HARDSPLAT_AUTO", auto)
        assert ask(STRIP, device) == (HardwareOptions(**START), False) and not cache.exists()


THRESHOLDS_OF = {TiledOptions: "tile_threshold", HardwareOptions: "hybrid_threshold"}
ALL_NAMED = dict(shape="quad", block="1x1", atomics="cas", segments=1, ordering="lists")


@pytest.fixture
def clock(device, cache, monkeypatch):
    """clock(fastest): times with which that threshold is the fastest on this device."""

    def clock(fastest: int, first: int) -> Clock:
        device.shared("choices", dict).clear()
        found = Clock({n: 5.0 if n == fastest else 10.0 for n in thresholds(device, first)})
        found.drawn = lambda options: getattr(options, THRESHOLDS_OF[type(options)])
        monkeypatch.setattr(module.Trial, "fitting", lambda *given: found)
        return found

    return clock


def hybrid_rows(device, **named):
    return hardware_rows(device, HardwareOptions(**ALL_NAMED, blending="fixed", **named))


def tiled_rows(device, **named):
    return tiled_rows_of(device, TiledOptions(tile_backward="distwar-serial", **named))


HYBRIDS = [(hybrid_rows, {"reduction": "hybrid"}, "hybrid_threshold", HYBRID)]
WITH_THRESHOLDS = [*HYBRIDS, (tiled_rows, {}, "tile_threshold", TILED)]


@pytest.mark.parametrize("make, named, setting, first", WITH_THRESHOLDS)
def test_thresholds_are_timed_and_remembered(device, clock, make, named, setting, first):
    values = thresholds(device, first)
    assert first in values and len(values) > 2
    assert len({threshold_of(device, n) for n in values}) == len(values)
    for fastest in (values[0], values[-1], first):
        timed = clock(fastest, first)
        rows = make(device, **named)
        assert set(timed.asked) == {*values, "destroyed"}
        assert rows.names[setting] == fastest and rows.threshold == threshold_of(device, fastest)
        (kept,) = remembered(device).values()
        assert kept["rows"] == {setting: fastest} and {*kept["ms"][setting]} == {*map(str, values)}
        timed.asked.clear()
        device.shared("choices", dict).clear()
        assert make(device, **named).names[setting] == fastest and not timed.asked
        next(module._path(device).parent.glob("*.json")).unlink()


@pytest.mark.parametrize("make, named, setting, first", WITH_THRESHOLDS)
def test_thresholds_that_need_no_timing(device, clock, monkeypatch, make, named, setting, first):
    """One that is named, one where nothing is timed, and none where the row has none."""
    timed = clock(1, first)
    rows = make(device, **named, **{setting: 24})
    assert rows.names[setting] == 24 and rows.threshold == threshold_of(device, 24)
    assert "hybrid_threshold" not in hybrid_rows(device, reduction="atomic").names
    assert "tile_threshold" not in tiled_rows_of(device, TiledOptions()).names
    assert not timed.asked and not remembered(device)
    monkeypatch.setenv("HARDSPLAT_AUTO", "first")
    assert make(device, **named).names[setting] == first and not timed.asked
    for reduction in ("auto", "atomic", "hybrid"):  # where it has no effect, too
        options = HardwareOptions(hybrid_threshold=4, reduction=reduction)
        assert hardware_rows(device, options).names.get("hybrid_threshold", 4) == 4


@pytest.fixture
def forgetful(device, cache, compiled):
    """The device without what it remembers, but for its shaders."""
    compiled.mkdir(parents=True, exist_ok=True)
    cache.mkdir()
    (cache / "spirv").symlink_to(compiled)

    def forget():
        device.shared("choices", dict).clear()
        device.shared("choosing", Event).clear()

    forget()
    return forget


LEVELS = {"--verbose": {"INFO", "DEBUG"}, "--quiet": set()}


@pytest.mark.parametrize("flag", LEVELS)
def test_the_program_says_it(
    scene, on_device, cache, forgetful, capsys, tmp_path, monkeypatch, flag
):
    if flag == "--quiet":  # one search by real times is enough
        monkeypatch.setattr(module, "BUDGET", 0.0)
    words = "--rasterizer hardware --ordering lists --blending lists --atomics cas"
    words += f" --block 1x1 --reduction atomic --segments 1 --max-steps 2 {flag} --result-dir"
    flags = [*words.split(), str(tmp_path / "run")]
    assert main(["train", str(scene), *flags]) == 0
    said = capsys.readouterr().err
    chooses = f"choosing variants for {on_device.name}, once ..."
    assert (chooses in said) == ("INFO" in LEVELS[flag])
    (found,) = remembered(on_device).values()
    assert (lines(found)[0] in said) == ("DEBUG" in LEVELS[flag])
    saved = json.loads((tmp_path / "run" / "metrics.json").read_text())["variants"]
    assert saved["shape"] == found["rows"]["shape"] and saved["atomics"] == "cas"

"""Settings: limits, presets and their precedence, and the saved file."""

import dataclasses
import tomllib
from pathlib import Path

import pytest

from hardsplat.base.errors import UserError
from hardsplat.raster.backends import BACKENDS, ignored_options
from hardsplat.settings.learning import GradientSettings, StochasticSettings
from hardsplat.settings.option import checked, kind
from hardsplat.settings.presets import (
    PRESETS,
    SAVED_NAME,
    config_from_file,
    load_config,
    save_config,
)
from hardsplat.settings.rasterizers import RASTERIZERS, RasterSettings, Stochastic
from hardsplat.settings.train import DETERMINISTIC, FIELDS, OWNERS, TrainConfig
from hardsplat.tables.formats import FORMATS
from tests.helpers.tables import refuses, rows
from tests.helpers.training import strategy_of


def other_value(f):
    """A valid value that is not the field's default."""
    m = f.metadata
    if m["choices"]:
        return next(c for c in m["choices"] if c != f.default)
    return {
        bool: lambda: not f.default,
        int: lambda: f.default + 1 if f.default < m["max"] else f.default - 1,
        float: lambda: 0.97 * (f.default or 0.003),
        str: lambda: 'NVIDIA "H200" \\ é\n\x7f😀',
        Path: lambda: Path('some dir/ünï"\\x'),
        tuple[int, ...]: lambda: (1, 2, 30_001),
        tuple[float, ...]: lambda: (1.5, -2.0, 3e-7, 4.0),
        tuple[str, ...]: lambda: ("a*.jpg", 'ü"\\\n'),
    }[kind(f)]()


@pytest.fixture
def toml(tmp_path):
    def write(text):
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return path

    return write


PUBLISHED = """
    max_steps 30000, ssim_lambda 0.2, sh_degree 3, opacities_lr 0.05, shN_every 1, grow_grad2d 2e-4
    grow_scale3d 0.01, prune_opa 0.005, refine_start_iter 500, reset_every 3000
    refine_stop_iter 15000, refine_every 100
"""


def test_published_values():
    """Kerbl et al. 2023, and the arguments of their trainer."""
    config = load_config("published")
    for line in PUBLISHED.strip().replace("\n", ",").split(","):
        name, value = line.split()
        assert config.flat()[name] == float(value), name
    assert config.adam.sh0_lr / config.model.shN_lr == pytest.approx(20)
    assert config.adam.means_lr / config.adam.means_lr_final == pytest.approx(100)


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_explains_itself_and_holds_its_own_default(name):
    f = FIELDS[name]
    assert len(f.metadata["help"]) > 10 and not f.metadata["help"].endswith(".")
    assert checked(name, f.default, name, FIELDS) == f.default
    assert f.default is not None or f.metadata["shown"]


def test_the_rasterizer_takes_every_setting_of_its_own():
    assert tuple(BACKENDS) == RASTERIZERS
    for name in RASTERIZERS:
        options = BACKENDS[name].options
        assert options.of(RasterSettings(), GradientSettings()) == options()  # the defaults agree
        assert set(options.settings()) <= FIELDS.keys()
    assert {f.name for f in dataclasses.fields(Stochastic)} <= FIELDS.keys() | {"perturbations"}
    sizes = dict(means=0.1, quats=0.02, log_scales=0.05, logit_opacities=0.1, sh0=0.1, shN=0.05)
    assert dict(Stochastic.of(StochasticSettings()).perturbations) == sizes
    larger = dict(Stochastic.of(StochasticSettings(perturbation=3.0)).perturbations)
    assert larger == pytest.approx({name: 3 * size for name, size in sizes.items()})


def test_precedence_is_defaults_then_preset_then_overrides(toml):
    preset = toml("max_steps = 5\nseed = 7\n")
    config = load_config(preset, {"max_steps": 9})
    assert (config.run.max_steps, config.run.seed, config.model.sh_degree) == (9, 7, 3)


@pytest.mark.parametrize("path", sorted(PRESETS.glob("*.toml")), ids=lambda p: p.stem)
def test_presets_load_by_name_and_only_override(path):
    config = load_config(path.stem)
    told = tomllib.loads(path.read_text())
    stretches = lambda name: FIELDS[name].metadata["scales"] is not None
    if path.stem in ("quick", "published", "stochastic"):
        return  # they say what other presets below them would change
    for name in told:
        timed = "max_steps" in told and stretches(name)
        timed |= name == "early_stop" and "max_steps" in told  # which would switch it off
        repeats = config.flat()[name] == FIELDS[name].default
        assert timed or not repeats, f"{path.name} repeats the default of {name}"


MEANT = dict(max_step="max_steps", iterations="max_steps", percent_dens="grow_scale3d")
MEANT |= dict(total_steps="max_steps", shn_lr="shN_lr")


@pytest.mark.parametrize("key, meant", MEANT.items())
def test_unknown_key_names_file_key_and_nearest(toml, key, meant):
    path = toml(f"{key} = 3\n")
    refuses(f"{path}: unknown key '{key}'; did you mean '{meant}'", load_config, path)


BAD = rows(f"""
    max_steps = -1 | a whole number of at least 1, got -1
    max_steps = true | a whole number, got True
    max_steps = 99999999999 | a whole number of at most 4294967295, got 99999999999
    ssim_lambda = 1.5 | a number of at most 1, got 1.5
    scales_lr = inf | a number of at most 4294967295, got inf
    scales_lr = 1{400 * "0"} | a number, got 1000
    quiet = 1 | true or false, got 1
    eval_steps = 7 | a list of whole numbers, got 7
    eval_steps = [0] | a list of whole numbers of at least 1, got [0]
    data_dir = "" | a path, got ''
    format = "fp16" | one of {", ".join(FORMATS)}, got 'fp16'
""")


@pytest.mark.parametrize("line, message", BAD)
def test_bad_values_name_file_key_expected_and_got(toml, line, message):
    path, name = toml(line), line.split()[0]
    with pytest.raises(UserError) as error:
        load_config(path)
    assert str(error.value).startswith(f"{path}: {name}: expected {message}")


def test_a_config_checks_itself():
    with pytest.raises(UserError, match="seed: expected"):
        TrainConfig().changed(seed="x")
    refuses("--resume and --ckpt exclude each other", TrainConfig.of, resume=True, ckpt=Path("a"))
    assert TrainConfig.of(eval_steps=[1, 2]).run.eval_steps == (1, 2)


NAMED = [{}, {"rasterizer": "auto"}, {"rasterizer": "tiled", "tile_backward": "gather"}]


@pytest.mark.parametrize("named", NAMED)
def test_deterministic_takes_what_it_needs(named, tmp_path):
    config = load_config(None, {"deterministic": True, **named})
    found = config.raster.rasterizer, config.raster.tiled.tile_backward
    assert found == ("tiled", "gather") == tuple(DETERMINISTIC.values())
    words = "^--deterministic takes --tile-backward gather, not atomic"
    refuses(words, config.changed, tile_backward="atomic")
    save_config(TrainConfig().flat(), tmp_path / "c.toml")  # names every default
    found = load_config(tmp_path / "c.toml", {"deterministic": True, **named})
    assert found == config


@pytest.mark.parametrize(
    "name", [name for name, f in FIELDS.items() if len(f.metadata["choices"]) != 1]
)
def test_saved_file_round_trips_each_field(name, tmp_path):
    owner = OWNERS[name]
    chosen = {owner.flag: owner.values[0]} if owner.flag else {}
    config = TrainConfig.of(**chosen | {name: other_value(FIELDS[name])})
    assert config != TrainConfig()
    save_config(config.flat(), tmp_path / "new" / SAVED_NAME)
    assert config_from_file(tmp_path / "new" / SAVED_NAME) == config


FOREIGN = [  # named in a flag -> what a UserError says that it belongs to, and what the run has
    ({"noise_lr": 1.0}, "--strategy mcmc", "budget"),
    ({"grow_grad2d": 1e-4, "strategy": "mcmc"}, "--strategy adaptive", "mcmc"),
    ({"prune_to": 0.5, "strategy": "none"}, "--strategy budget", "none"),
    ({"format": "unorm8", "rasterizer": "tiled"}, "--rasterizer hardware", "tiled"),
    ({"tile_threshold": 4, "rasterizer": "hardware"}, "--rasterizer tiled", "hardware"),
    ({"gradient_pairs": 2}, "--gradient stochastic", "auto"),
    ({"exposure_lr": 0.1, "exposure": "none"}, "--exposure affine", "none"),
    ({"pose_lr": 1e-4}, "--pose-opt", "none"),
    ({"intrinsics_lr": 1e-4}, "--intrinsics-opt", "none"),
]


@pytest.mark.parametrize("named, owner, has", FOREIGN)
def test_settings_whose_owner_is_not_chosen(toml, named, owner, has):
    """Errors of flags and a user's own file; shipped presets, saved files and sweeps drop them."""
    (name,) = [n for n in named if OWNERS[n].flag not in ("", n)]
    flag = name.replace("_", "-")
    words = f"belongs to {owner}; this run has {has}: leave it out or add {owner}$"
    refuses(f"^--{flag} {words}", load_config, None, named)
    text = "\n".join(f"{n} = {v!r}" for n, v in named.items()).replace("'", '"')
    mine = toml(text)
    refuses(f"^{mine}: {name} {words}", load_config, mine)
    others = {n: v for n, v in named.items() if n != name}
    assert load_config(None, named, sweep=True) == load_config(None, others)
    saved = toml(text)
    saved = saved.rename(saved.with_name(SAVED_NAME))
    assert load_config(saved) == load_config(None, others)


RESUMED = [{"data_dir": "run"}, {"result_dir": "run"}, {"data_dir": "garden", "result_dir": "run"}]


@pytest.mark.parametrize("given", RESUMED)
def test_resume_takes_the_settings_of_the_run(monkeypatch, tmp_path, given):
    monkeypatch.chdir(tmp_path)
    before = dict(data_dir=tmp_path / "garden", result_dir="run", ckpt="first.ckpt")
    save_config(TrainConfig.of(**before, sh_degree=1, seed=7).flat(), f"run/{SAVED_NAME}")
    config = load_config(overrides={"resume": True, "seed": 8, **given})
    assert (config.scene.data_dir, config.run.result_dir) == (tmp_path / "garden", Path("run"))
    found = config.model.sh_degree, config.run.seed, config.run.ckpt, config.run.resume
    assert found == (1, 8, None, True)


def test_settings_of_an_older_version_are_left_out_with_a_note(monkeypatch, tmp_path, capfd):
    """Settings that are gone, and choices: in a run's own file alone."""
    monkeypatch.chdir(tmp_path)
    save_config(TrainConfig.of(data_dir=tmp_path, sh_degree=1).flat(), f"run/{SAVED_NAME}")
    saved = Path("run") / SAVED_NAME
    text = saved.read_text().replace('reduction = "auto"', 'reduction = "ballot"')
    saved.write_text(text + "adam_every = 3\n")
    resumed = load_config(overrides={"resume": True, "data_dir": "run"})
    for config in (resumed, load_config(saved), config_from_file(saved)):
        assert (config.model.sh_degree, config.raster.hardware.reduction) == (1, "auto")
    notes = [line for line in capfd.readouterr().out.splitlines() if "older version" in line]
    assert notes and all('reduction = "ballot", adam_every = 3' in note for note in notes)
    assert len(notes) == len(set(notes))
    saved.rename("mine.toml")
    refuses("mine.toml: unknown key 'adam_every'", load_config, "mine.toml")


def test_options_that_stochastic_gradients_do_not_use():
    config = TrainConfig.of(gradient="stochastic", block="1x1", tile_threshold=4, strategy="none")
    assert ignored_options(config.raster, config.gradient) == ["block", "tile_threshold"]
    assert ignored_options(config.raster, GradientSettings()) == []


SCHEDULES = [  # preset, flags -> start and end of growth, resets, steps a band of colour
    (None, {}, (430, 8_000, 0, 900)),
    (None, {"max_steps": 10_000}, (239, 4_444, 0, 500)),
    # What a flag names stands.
    (None, {"max_steps": 10_000, "refine_stop_iter": 7_000}, (239, 7_000, 0, 500)),
    (None, {"strategy": "adaptive"}, (500, 15_000, 4_000, 1_000)),
    # Resets are no closer than 1500 steps.
    (None, {"strategy": "adaptive", "max_steps": 10_000}, (167, 5_000, 1_500, 333)),
    ("adaptive", {"max_steps": 100_000}, (1_667, 50_000, 13_333, 3_333)),
    ("adaptive", {"max_steps": 1_000}, (100, 500, 1_500, 33)),  # growth begins no earlier than 100
    ("published", {}, (500, 15_000, 3_000, 1_000)),
    ("quick", {}, (36, 360, 0, 300)),
    ("quick", {"max_steps": 1_200}, (72, 720, 0, 600)),
    ("mcmc", {"max_steps": 15_000}, (250, 12_500, 0, 500)),
]


@pytest.mark.parametrize("preset, flags, found", SCHEDULES)
def test_schedules_stretch_with_the_run(preset, flags, found):
    c = load_config(preset, flags)
    d = c.densify
    now = d.refine_start_iter, d.refine_stop_iter, d.reset_every, c.model.sh_degree_interval
    assert now == found
    every = 25 if preset == "quick" else 100
    assert d.refine_every == (40 if found[1] == 500 else every)


@pytest.mark.parametrize("steps, growths", [(100, 3), (300, 10), (1_000, 11), (3_000, 12)])
def test_a_short_run_grows_too(steps, growths):
    config = load_config(None, {"max_steps": steps})
    due = [step for step in range(steps) if "densify" in strategy_of(config).due(step)]
    assert len(due) == growths
    named = load_config(None, {"max_steps": steps, "refine_every": 100})
    assert named.densify.refine_every == 100

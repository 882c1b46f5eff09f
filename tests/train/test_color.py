"""The colour that `auto` takes: by settings that are named, by checkpoints and given splats, by
what lobes do not go with."""

import pytest

from hardsplat.base.errors import UserError
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import save_splats
from hardsplat.settings.presets import SAVED_NAME, load_config, save_config
from hardsplat.settings.train import TrainConfig
from hardsplat.study.sweep.plan import plan
from hardsplat.train.job import recipe
from hardsplat.train.job.recipe import MANY_PHOTOGRAPHS, colored
from hardsplat.train.measure.held_out import refining_job
from hardsplat.train.run.trainer import train
from tests.helpers.splat_files import some_splats
from tests.helpers.training import settings

LOBES = ("lobe_colors", "lobe_axes")
SH, BY_LOBES = "colour is spherical harmonics: --color sh", "colour is lobes: --color lobes"
OTHER = " (--color lobes: lobes)"
FEW, MANY = MANY_PHOTOGRAPHS - 1, MANY_PHOTOGRAPHS
TAKEN = f"for {MANY} training views {BY_LOBES} (--color sh: spherical harmonics)"
BY_SETTINGS = [  # preset, flags -> colour, and what the note says of it, "" for none
    (None, {}, "lobes", TAKEN),
    ("fast", {}, "lobes", TAKEN),
    ("compact", {"max_steps": 200}, "lobes", TAKEN),
    (None, {"lobes_lr": 0.0025}, "lobes", ""),
    (None, {"lobe_axes_lr": 0.1, "strategy": "mcmc"}, "lobes", ""),
    (None, {"color": "lobes", "strategy": "none"}, "lobes", ""),
    ("quick", {"lobes_lr": 0.1}, "lobes", ""),  # flags come before presets
    ("quick", {}, "sh", ""),
    ("published", {}, "sh", ""),
    (None, {"color": "sh"}, "sh", ""),
    (None, {"sh_degree": 3}, "sh", ""),
    (None, {"sh_degree_interval": 1_250}, "sh", ""),
    (None, {"shN_lr": 0.1}, "sh", ""),
    (None, {"shN_every": 4, "color": "auto"}, "sh", ""),
    (None, {"strategy": "mcmc"}, "sh", f"with --strategy mcmc {SH}{OTHER}"),
    (None, {"strategy": "none", "max_steps": 200}, "sh", f"with --strategy none {SH}{OTHER}"),
    ("mcmc", {}, "sh", f"with --strategy mcmc {SH}{OTHER}"),
    (None, {"gradient": "stochastic"}, "sh", f"with --gradient stochastic {SH}"),
    ("stochastic", {}, "sh", f"with --gradient stochastic {SH}"),
    (None, {"blocks": "2x1"}, "sh", f"with --blocks {SH}"),
]


def decided(
    config: TrainConfig, start: Checkpoint | None = None, photographs: int = MANY
) -> tuple[str, str]:
    """The colour, and the note of it."""
    notes: list[str] = []
    found = colored(config, photographs, start, notes.append).model
    assert len(notes) <= 1 and found.has_lobes == (found.sh_degree == 0)
    return found.color, "".join(notes)


@pytest.mark.parametrize("preset, flags, color, note", BY_SETTINGS)
def test_by_settings(preset, flags, color, note):
    config = load_config(preset, flags)
    assert decided(config) == (color, note)
    few = f"for {FEW} training views {SH}{OTHER}"
    wanted = ("sh", few) if note == TAKEN else (color, note)
    assert decided(config, photographs=FEW) == wanted


def test_faces_of_panoramas_are_no_photographs():
    for panoramas, color in ((FEW, "sh"), (MANY, "lobes")):
        found = colored(TrainConfig(), 6 * panoramas, None, lambda line: None, faces=6)
        assert found.model.color == color


def test_by_files_of_settings(tmp_path):
    """One of a user names a setting at its default; one of a run before there were colours has
    those of SH alone."""
    (tmp_path / "mine.toml").write_text("sh_degree = 3\n")
    assert decided(load_config(tmp_path / "mine.toml")) == ("sh", "")
    for color in ("sh", "lobes"):
        saved = tmp_path / color / SAVED_NAME
        save_config(TrainConfig.of(color=color, data_dir=tmp_path).flat(), saved)
        again = load_config(None, {"data_dir": saved.parent, "resume": True})
        assert decided(again) == decided(load_config(saved)) == (color, "")
    old = tmp_path / "sh" / SAVED_NAME
    old.write_text(old.read_text().replace('color = "sh"\n', ""))
    again = load_config(None, {"data_dir": old.parent, "resume": True})
    assert decided(again) == decided(load_config(old)) == ("sh", "")


def test_by_checkpoints_and_given_splats(tmp_path):
    given = {"sh": some_splats(5), "one": some_splats(5, 0)}
    given["lobes"] = given["one"].with_further(LOBES)
    for name, g in given.items():
        save_splats(tmp_path / f"{name}.npz", g)

    def init(name, **flags):
        return load_config(None, {"init": tmp_path / f"{name}.npz", **flags})

    assert decided(init("sh")) == ("sh", f"as in {tmp_path / 'sh.npz'} {SH}{OTHER}")
    assert decided(init("one")) == ("lobes", TAKEN)
    assert decided(init("one"), photographs=FEW)[0] == "sh"
    assert decided(init("one", strategy="none"))[0] == "sh"
    left = f"colour is lobes, so harmonics of {tmp_path / 'sh.npz'} above degree 0 are left out"
    assert decided(init("sh", color="lobes")) == ("lobes", left)
    assert (
        decided(init("one", color="lobes")) == decided(init("lobes", lobes_lr=1.0)) == ("lobes", "")
    )
    for photographs in (FEW, MANY):
        note = f"as in {tmp_path / 'lobes.npz'} {BY_LOBES} (--color sh: spherical harmonics)"
        assert decided(init("lobes", strategy="none"), None, photographs) == ("lobes", note)
    assert decided(init("lobes", gradient="stochastic")) == BY_SETTINGS[-2][2:]
    of = lambda name: Checkpoint.initial(given[name], given[name].sh_degree)
    assert decided(TrainConfig(), of("sh")) == ("sh", f"as in the checkpoint {SH}")
    by_lobes = "lobes", f"as in the checkpoint {BY_LOBES}"
    assert decided(TrainConfig(), of("lobes"), FEW) == by_lobes
    assert decided(TrainConfig.of(strategy="mcmc"), of("lobes")) == by_lobes


def test_runs_keep_what_was_taken(on_device, scene, tmp_path, monkeypatch):
    """In config.toml and in the checkpoint; a run from a checkpoint of SH has SH."""
    monkeypatch.setattr(recipe, "MANY_PHOTOGRAPHS", 7)
    own = dict(max_steps=4, strategy="budget", rasterizer="tiled", cap_max=350)
    del (config := settings(scene, tmp_path / "run", color="auto", **own).flat())["sh_degree"]
    metrics = train(TrainConfig.of(**config))
    assert any(line.startswith("for 7 training views colour") for line in metrics["decisions"])
    saved = (tmp_path / "run" / SAVED_NAME).read_text()
    assert 'color = "lobes"\n' in saved and "sh_degree" not in saved and "shN" not in saved
    assert LOBES[0] in checkpoints.load(checkpoints.path_of(tmp_path / "run", 4)).buffers
    train(settings(scene, tmp_path / "sh", color="sh", sh_degree=3, **own | {"max_steps": 2}))
    ckpt = checkpoints.path_of(tmp_path / "sh", 2)
    config |= {"result_dir": tmp_path / "on", "ckpt": ckpt, "sh_degree": 3}
    metrics = train(TrainConfig.of(**config))
    assert any("as in the checkpoint colour is" in line for line in metrics["decisions"])
    assert 'color = "sh"\n' in (tmp_path / "on" / SAVED_NAME).read_text()
    config |= {"ckpt": checkpoints.path_of(tmp_path / "run", 4), "max_steps": 8}
    with pytest.raises(UserError, match="made with --color lobes, this run has sh"):
        train(TrainConfig.of(**config | {"gradient": "stochastic", "strategy": "mcmc"}))


def test_runs_of_a_sweep_have_a_colour():
    """So a run of an earlier default, which was by SH, is not taken for one of this."""
    jobs = plan(None, {"data_dir": "x"}, {"strategy": ["budget", "mcmc"], "seed": [1, 2]})
    assert [job.settings["color"] for job in jobs] == ["auto", "auto", "sh", "sh"]
    given = {"data_dir": "x", "init": "x.ply"}  # which decides when the run begins
    jobs = plan(None, given, {"strategy": ["none"], "gradient": ["analytic", "stochastic"]})
    assert [job.settings["color"] for job in jobs] == ["auto", "sh"]
    jobs = plan(None, {"data_dir": "x"}, {"color": ["auto", "sh", "lobes"]})
    assert [job.varied["color"] for job in jobs] == ["auto", "sh", "lobes"]


def test_poses_are_refined_with_the_colours_of_the_splats(device, scene):
    """A file of another program beside a result with lobes has harmonics."""
    loaded = load_scene(scene)
    how = settings(scene, color="lobes"), "tiled", loaded.held_out, loaded.extent
    for g in (some_splats(5, 2), some_splats(5, 0).with_further(LOBES)):
        job = refining_job(device, *how, g)
        assert job.config.model.sh_degree == g.sh_degree and set(job.further) == set(g.extra)

"""The colour that `auto` takes: by settings that are named, by checkpoints and given splats, by
what lobes do not go with."""

import pytest

from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import save_splats
from hardsplat.settings.presets import SAVED_NAME, load_config, save_config
from hardsplat.settings.train import TrainConfig
from hardsplat.study.sweep.plan import plan
from hardsplat.train.job.recipe import colored
from hardsplat.train.measure.held_out import refining_job
from hardsplat.train.run.trainer import train
from tests.helpers.splat_files import some_splats
from tests.helpers.training import settings

LOBES = ("lobe_colors", "lobe_axes")
OTHER = " (--color lobes: lobes)"
BY_SETTINGS = [  # preset, flags -> colour, and what the note says of it, "" for none
    (None, {}, "lobes", ""),
    ("fast", {}, "lobes", ""),
    ("compact", {"max_steps": 200}, "lobes", ""),
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
    (None, {"strategy": "mcmc"}, "sh", f"with --strategy mcmc: --color sh{OTHER}"),
    (
        None,
        {"strategy": "none", "max_steps": 200},
        "sh",
        f"with --strategy none: --color sh{OTHER}",
    ),
    ("mcmc", {}, "sh", f"with --strategy mcmc: --color sh{OTHER}"),
    (None, {"gradient": "stochastic"}, "sh", "with --gradient stochastic: --color sh"),
    ("stochastic", {}, "sh", "with --gradient stochastic: --color sh"),
    (None, {"blocks": "2x1"}, "sh", "with --blocks: --color sh"),
]


def decided(config: TrainConfig, start: Checkpoint | None = None) -> tuple[str, str]:
    """The colour, and what the note says of it."""
    notes: list[str] = []
    found = colored(config, start, notes.append).model
    assert len(notes) <= 1 and found.has_lobes == (found.sh_degree == 0)
    return found.color, "".join(notes).removeprefix("colour is spherical harmonics, not lobes, ")


@pytest.mark.parametrize("preset, flags, color, note", BY_SETTINGS)
def test_by_settings(preset, flags, color, note):
    config = load_config(preset, flags)
    assert decided(config) == (color, note)
    assert config.with_color().model.color == color  # as a job without a trainer has it


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

    assert decided(init("sh")) == ("sh", f"as in {tmp_path / 'sh.npz'}: --color sh{OTHER}")
    assert decided(init("one")) == ("lobes", "")
    assert decided(init("one", strategy="none"))[0] == "sh"
    assert decided(init("lobes", strategy="none")) == ("lobes", "")
    assert decided(init("lobes", gradient="stochastic"))[1].startswith("with --gradient stochastic")
    of = lambda name: Checkpoint.initial(given[name], given[name].sh_degree)
    assert decided(TrainConfig(), of("sh")) == ("sh", "as in the checkpoint: --color sh")
    assert decided(TrainConfig(), of("lobes")) == ("lobes", "")
    assert decided(TrainConfig.of(strategy="mcmc"), of("lobes")) == ("lobes", "")


def test_runs_keep_what_was_taken(on_device, scene, tmp_path):
    """In config.toml and in the checkpoint; a run from a checkpoint of SH has SH."""
    own = dict(max_steps=4, strategy="budget", rasterizer="tiled", cap_max=350)
    del (config := settings(scene, tmp_path / "run", color="auto", **own).flat())["sh_degree"]
    metrics = train(TrainConfig.of(**config))
    assert not any("colour is" in line for line in metrics["decisions"])
    saved = (tmp_path / "run" / SAVED_NAME).read_text()
    assert 'color = "lobes"\n' in saved and "sh_degree" not in saved and "shN" not in saved
    assert LOBES[0] in checkpoints.load(checkpoints.path_of(tmp_path / "run", 4)).buffers
    train(settings(scene, tmp_path / "sh", color="sh", sh_degree=3, **own | {"max_steps": 2}))
    ckpt = checkpoints.path_of(tmp_path / "sh", 2)
    config |= {"result_dir": tmp_path / "on", "ckpt": ckpt, "sh_degree": 3}
    metrics = train(TrainConfig.of(**config))
    assert any("as in the checkpoint: --color sh" in line for line in metrics["decisions"])
    assert 'color = "sh"\n' in (tmp_path / "on" / SAVED_NAME).read_text()


def test_runs_of_a_sweep_have_a_colour():
    """So a run of an earlier default is not taken for one of this."""
    jobs = plan(None, {"data_dir": "x"}, {"strategy": ["budget", "mcmc"], "seed": [1, 2]})
    assert [job.settings["color"] for job in jobs] == ["lobes", "lobes", "sh", "sh"]
    jobs = plan(None, {"data_dir": "x"}, {"color": ["auto", "sh", "lobes"]})
    assert [job.varied["color"] for job in jobs] == ["lobes", "sh"]


def test_poses_are_refined_with_the_colours_of_the_splats(device, scene):
    """A file of another program beside a result with lobes has harmonics."""
    loaded = load_scene(scene)
    how = settings(scene, color="lobes"), "tiled", loaded.held_out, loaded.extent
    for g in (some_splats(5, 2), some_splats(5, 0).with_further(LOBES)):
        job = refining_job(device, *how, g)
        assert job.config.model.sh_degree == g.sh_degree and set(job.further) == set(g.extra)

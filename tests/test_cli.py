"""The command line: flags from the settings, one-line errors, exit codes. Handlers' targets are stand-ins."""

import os
import re
import shlex
import subprocess
import sys
import types
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from hardsplat import __version__
from hardsplat.cli import COMMANDS, _parsed, main
from hardsplat.config import FIELDS
from hardsplat.errors import UserError
from hardsplat.gaussians import Gaussians
from hardsplat.io.ply import save_ply
from hardsplat.variants.reductions import REDUCTIONS


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in ("HARDSPLAT_DEBUG", "HARDSPLAT_DEVICE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def stand_in(monkeypatch):
    """Put a module with one function in the place that a handler imports from; the calls it gets."""

    def install(module, name, answer=None):
        calls = []

        def called(*args, **named):
            calls.append((args, named))
            if isinstance(answer, BaseException):
                raise answer
            return answer

        fake = types.ModuleType(module)
        setattr(fake, name, called)
        monkeypatch.setitem(sys.modules, module, fake)
        return calls

    return install


@pytest.fixture
def scene(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "garden").mkdir()
    monkeypatch.setattr("hardsplat.cli.train.reading", lambda config, parts: nullcontext())
    return "garden"


@pytest.fixture
def train(stand_in, scene, monkeypatch):
    """train(flags...) -> the config that the trainer got."""
    calls = stand_in("hardsplat.train.trainer", "train")
    monkeypatch.setattr("hardsplat.cli.train.opening", lambda wanted: None)

    def run(*argv):
        assert main(["train", *argv]) == 0
        return calls[-1][0][0]

    return run


def error_of(capsys, *argv):
    """The one line that a bad command line prints."""
    assert main(list(argv)) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("hardsplat: error: ") and err.count("\n") == 1
    return err.removeprefix("hardsplat: error: ").rstrip("\n")


def test_flags_become_settings(train, scene):
    config = train(scene, "--max-steps", "9", "--ssim-lambda=0.5", "--eval-steps", "3,4", "5", "--quiet", "--ckpt", "c.npz", "--format", "unorm8", "--shN-lr", "1e-3")
    assert (config.max_steps, config.ssim_lambda, config.eval_steps, config.quiet) == (9, 0.5, (3, 4, 5), True)
    assert (config.ckpt, config.format, config.shN_lr) == (Path("c.npz"), "unorm8", 1e-3)
    assert config.data_dir == Path(scene).absolute() and config.result_dir == Path("results/garden")


def test_backgrounds_by_their_names_elsewhere(train, scene):
    assert train(scene, "--random_background").background == "random" and train(scene, "--white-background").background == "white"


def test_dashes_and_underscores_are_alike(train, scene):
    assert train("--max_steps=9", "--data_dir", scene) == train("--max-steps=9", "--data-dir", scene) == train(scene, "--max-steps", "9")
    assert train(scene, "--result_dir=a_b", "--device", "my_gpu").result_dir == Path("a_b")


@pytest.mark.parametrize("words", [("--up", "-z"), ("--up=-z",)])
def test_a_negative_axis_is_a_value(words):
    flags = _parsed(["render", "a.ply", *words, "--fov", "40"])
    assert (flags["up"], flags["fov"]) == ("-z", 40)


@pytest.mark.parametrize("argv", [("garden", "--seed", "1"), ("--seed", "1", "garden"), ("--quiet", "garden", "--seed", "1")])
def test_the_scene_may_stand_anywhere(train, argv):
    assert train(*argv).seed == 1


def test_flags_win_over_the_preset(train, scene):
    Path("p.toml").write_text("max_steps = 5\nseed = 7\nquiet = true\n")
    config = train(scene, "--config", "p.toml", "--max-steps", "9", "--no-quiet")
    assert (config.max_steps, config.seed, config.quiet) == (9, 7, False)


def test_presets_go_by_name(train, scene):
    assert train(scene, "--config", "quick").max_steps < 30_000


def test_device_comes_from_flag_then_environment_then_preset(train, scene, monkeypatch):
    Path("p.toml").write_text("device = 2\n")
    assert train(scene, "--config", "p.toml").device == "2"
    monkeypatch.setenv("HARDSPLAT_DEVICE", "llvmpipe")
    assert train(scene, "--config", "p.toml").device == "llvmpipe"
    assert train(scene, "--device", "0").device == "0"
    assert main(["--device", "1", "train", scene]) == 0


def test_every_command_takes_the_device_of_the_environment(monkeypatch, capsys, tmp_path):
    """Commands that use no GPU, too: none ends in a traceback for it."""
    monkeypatch.setenv("HARDSPLAT_DEVICE", "x")
    for name in COMMANDS:
        if name != "doctor":
            assert main([name, str(tmp_path / "nothing"), *([str(tmp_path / "a.spz")] if name == "convert" else [])]) == 2, name
            assert capsys.readouterr().err.startswith("hardsplat: error: "), name


@pytest.mark.parametrize("named, words", [([], "HARDSPLAT_DEVICE=x: no device"), (["--device", "y"], "--device y: no device")])
def test_who_chose_a_device_that_is_not_there_is_named(scene, capsys, monkeypatch, named, words):
    monkeypatch.setenv("HARDSPLAT_DEVICE", "x")
    save_ply("a.ply", Gaussians.from_points(np.zeros((2, 3)), np.zeros((2, 3), np.uint8)))
    assert error_of(capsys, "render", "a.ply", *named).startswith(f"{words} has this in its name")
    assert main(["doctor", *named]) == 2
    assert f"not ready: {words} has this in its name" in capsys.readouterr().out


def test_device_may_come_before_the_command(stand_in):
    calls = stand_in("hardsplat.doctor", "report", ("fine", 0))
    assert main(["--device", "1", "doctor"]) == main(["doctor", "--device", "1"]) == main(["doctor"]) == 0
    assert calls == [((), {"device": "1"}), ((), {"device": "1"}), ((), {})]


def test_doctor_prints_and_passes_on_the_exit_code(stand_in, capsys):
    stand_in("hardsplat.doctor", "report", ("no device", 1))
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out == "no device\n"


def test_eval_passes_only_what_was_given(stand_in):
    calls = stand_in("hardsplat.train.command", "evaluate_run")
    assert main(["eval", "results/garden"]) == 0
    assert main(["eval", "a.ply", "--data_dir", "s", "--result-dir", "r", "--device", "0"]) == 0
    assert calls == [(("results/garden",), {}), (("a.ply",), {"data_dir": "s", "result_dir": "r", "device": "0"})]


@pytest.mark.parametrize(
    "argv, message",
    [
        (["train"], "no scene given: hardsplat train SCENE, a folder with images/ and sparse/0/, or with transforms.json"),
        (["train", "garden", "--data-dir", "garden"], "the scene is given twice: as SCENE and as --data-dir"),
        (["train", "garden", "--max-step", "3"], "unknown flag '--max-step'; did you mean '--max-steps'?"),
        (["train", "garden", "--max_step=3"], "unknown flag '--max-step'; did you mean '--max-steps'?"),
        (["train", "garden", "--iterations", "3"], "unknown flag '--iterations'; did you mean '--max-steps'?"),
        (["train", "garden", "--confg=quick"], "unknown flag '--confg'; did you mean '--config'?"),
        (["train", "garden", "--zzzzqqq"], "unknown flag '--zzzzqqq' (see hardsplat train --help)"),
        (["view", "a.ply", "--fullscreen"], "unknown flag '--fullscreen' (see hardsplat view --help)"),
        (["train", "garden", "--dat-dir=x"], "unknown flag '--dat-dir'; did you mean '--data-dir'?"),
        (["eval", "a", "--max-steps", "3"], "unknown flag '--max-steps' (see hardsplat eval --help)"),
        (["eval", "a", "b"], "unexpected argument 'b' (see hardsplat eval --help)"),
        (["train", "garden", "--max-steps", "-3"], "--max-steps: expected a whole number of at least 1, got -3"),
        (["train", "garden", "--max_steps", "many"], "--max-steps: expected a whole number, got 'many'"),
        (["train", "garden", "--means-lr", "nan"], "--means-lr: expected a number of at least 1e-15, got nan"),
        (["train", "--eval-steps", "3", "garden"], "--eval-steps: expected a list of whole numbers, got ['3', 'garden']"),
        (["train", "garden", "--reduction", "fast"], f"--reduction: expected one of auto, {', '.join(REDUCTIONS)}, got 'fast'"),
        (["train", "--serve", "garden"], "--serve garden: expected PORT or HOST:PORT, such as 8080 or 0.0.0.0:8080"),
        (["export", "a.ply", "--up", "z", "b.html", "c.html"], "unexpected argument 'c.html' (see hardsplat export --help)"),
        (["train", "garden", "--seed"], "argument --seed: expected one argument (see hardsplat train --help)"),
        (["trian", "garden"], "unknown command 'trian'; did you mean 'train'?"),
        (["qqq"], "unknown command 'qqq'; there are train, view, eval, render, export, convert, bench, sweep, fit, mesh, sfm, doctor"),
        (["eval"], "the following arguments are required: RESULT (see hardsplat eval --help)"),
        ([], "the following arguments are required: COMMAND (see hardsplat --help)"),
    ],
)
def test_bad_command_lines_get_one_line(capsys, scene, argv, message):
    assert error_of(capsys, *argv) == message


@pytest.mark.parametrize("words", [["a.ply", "b.html", "--up=z"], ["a.ply", "--up", "z", "b.html"], ["--up", "z", "a.ply", "b.html"]])
def test_a_page_may_be_named_anywhere(stand_in, words):
    calls = stand_in("hardsplat.export.page", "export")
    assert main(["export", *words]) == 0
    assert calls == [(("a.ply", "b.html"), {"up": "z"})]


def test_a_scene_that_is_not_there(capsys, scene):
    assert error_of(capsys, "train", "gardn") == f"scene {Path('gardn').absolute()} does not exist"


def test_a_result_folder_is_no_scene(capsys, train, scene, tmp_path):
    result = tmp_path / "garden"
    (result / "config.toml").write_text("")
    assert error_of(capsys, "train", scene) == f"{result}: this is a result folder; add --resume to go on with it, or give its scene"
    (result / "config.toml").unlink()
    (result / "ckpts").mkdir()
    assert error_of(capsys, "train", scene, "--resume").startswith(f"{result}: its config.toml is missing, which says how to go on: hardsplat train SCENE --result-dir {result}")
    (result / "sparse").mkdir()
    train(scene)  # a scene that holds its own result


def test_view_trains_on_without_a_window(stand_in, scene, capsys):
    trained, windows = stand_in("hardsplat.train.trainer", "train"), stand_in("hardsplat.view.preview", "Preview", "a window")
    assert main(["train", scene]) == 0 and not windows and trained[-1][0][1] == []
    assert main(["train", scene, "--view"]) == 0 and trained[-1][0][1] == ["a window"] and windows[-1][1] == {"stays": True}
    assert "view" not in FIELDS  # how a run is watched is no setting of it
    stand_in("hardsplat.view.preview", "Preview", UserError("no window: there is no display"))
    capsys.readouterr()
    assert main(["train", scene, "--view"]) == 0 and trained[-1][0][1] == []
    assert capsys.readouterr().err == "note: no window: there is no display; training goes on without --view\n"


def test_view_takes_what_it_is_given(stand_in, capsys):
    calls = stand_in("hardsplat.view.show", "view")
    assert main(["view", "a.ply", "--data-dir", "garden", "--data-factor", "2", "--format", "float32"]) == 0
    assert calls == [(("a.ply",), {"data_dir": Path("garden"), "data_factor": 2, "format": "float32"})]
    assert error_of(capsys, "view") == "the following arguments are required: RESULT|SPLATS|SCENE (see hardsplat view --help)"


def test_help_keeps_the_words(capsys):
    for command, words in (("eval", "Measure PSNR and SSIM of"), ("doctor", "Show the Vulkan devices")):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert words in capsys.readouterr().out


def test_debug_shows_the_traceback(monkeypatch):
    monkeypatch.setenv("HARDSPLAT_DEBUG", "1")
    with pytest.raises(Exception, match="no scene given"):
        main(["train"])


def test_interrupt_is_130(stand_in, scene, capsys):
    stand_in("hardsplat.train.trainer", "train", KeyboardInterrupt())
    assert main(["train", scene]) == 130
    assert capsys.readouterr().err == "hardsplat: interrupted\n"


@pytest.mark.parametrize("command", ["train", "sweep"])
def test_help_shows_the_common_flags_and_says_how_to_see_all(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    text = capsys.readouterr().out
    assert stop.value.code == 0 and text.count("\n") < 60
    assert "--max-steps" in text and "--config" in text and "--adam-eps" not in text
    with pytest.raises(SystemExit):
        main([command, "-h", "all"])
    whole = capsys.readouterr().out
    flags = [set(re.findall(r"^  (--[\w-]+)", t, re.MULTILINE)) for t in (text, whole)]
    assert flags[0] < flags[1] and text.rstrip().endswith(f" more flags: hardsplat {command} --help all")
    assert int(re.search(r"(\d+) more flags", text)[1]) == len(flags[1]) - len(flags[0])
    assert whole.index("--max-steps") < whole.index("--adam-eps")


def test_help_shows_every_flag_with_help_default_and_unit(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", "--help", "all"])
    text = " ".join(capsys.readouterr().out.split())
    assert stop.value.code == 0
    for name, f in FIELDS.items():
        assert f"--{name.replace('_', '-')}" in text and f.metadata["help"] in text
        if isinstance(f.default, int | float) and not isinstance(f.default, bool) and not f.metadata["shown"]:
            assert f"{f.metadata['help']} (default: {f.default}{' ' * bool(f.metadata['unit'])}{f.metadata['unit']})" in text
    assert "(default: what fits)" in text and "(default: 7000 30000 steps)" in text and "(default: results/<scene name>)" in text


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0 and capsys.readouterr().out == f"hardsplat {__version__}\n"


def test_help_loads_neither_vulkan_nor_numpy():
    code = (
        "import sys; from hardsplat.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
        "sys.exit(bool({'vulkan', 'numpy', 'scipy', 'cv2', 'PIL', 'imageio', 'av', 'tqdm', 'matplotlib'} & sys.modules.keys()))"
    )
    root = Path(__file__).parents[1]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, stdout=subprocess.DEVNULL).returncode == 0


def test_names_that_no_terminal_can_show_are_no_traceback(tmp_path):
    (tmp_path / os.fsdecode(b"caf\xe9")).mkdir()
    listing = f"print(*__import__('pathlib').Path({str(tmp_path)!r}).iterdir())"
    code = f"import sys; from hardsplat.cli import main\nsys.argv[1:] = ['--version']\ntry: main()\nexcept SystemExit: {listing}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and "caf\\udce9" in done.stdout


def test_the_module_runs_as_a_program():
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-m", "hardsplat", "train", "--max-step", "3"], cwd=root, capture_output=True, text=True, env={**os.environ, "HARDSPLAT_DEBUG": "0"})
    assert (done.returncode, done.stderr) == (2, "hardsplat: error: unknown flag '--max-step'; did you mean '--max-steps'?\n")


def test_whoever_reads_the_output_may_stop():
    """As `hardsplat train --help all | head -1` does."""
    command = f"{shlex.quote(sys.executable)} -m hardsplat train --help all | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stderr == "" and done.stdout.count("\n") == 1 and done.returncode in (0, 141)
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "hardsplat", "doctor"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.stderr == "hardsplat: error: the output cannot be written: No space left on device\n" and done.returncode == 2

"""The command line: flags, one-line errors, exit codes. Handlers' targets are stand-ins."""

import os
import re
import shlex
import signal
import subprocess
import sys
import types
from contextlib import nullcontext
from pathlib import Path

import pytest

from hardsplat.__main__ import run
from hardsplat.base.errors import UserError
from hardsplat.cli import COMMANDS, main
from hardsplat.cli.train import PRODUCTS
from hardsplat.settings.train import FIELDS
from hardsplat.tables.gradients import REDUCTIONS


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in ("HARDSPLAT_DEBUG", "HARDSPLAT_DEVICE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def stand_in(monkeypatch):
    """A module with one function in the place that a handler imports from; the calls it gets."""

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
    (tmp_path / "garden" / "transforms.json").touch()
    monkeypatch.setattr("hardsplat.cli.train.reading", lambda config, parts: nullcontext())
    return "garden"


@pytest.fixture
def train(stand_in, scene, monkeypatch):
    """train(flags...) -> the config that the trainer got."""
    calls = stand_in("hardsplat.train.run.trainer", "run_training")
    monkeypatch.setattr("hardsplat.gpu.probe.opening", lambda wanted: nullcontext())

    def run(*argv):
        assert main(["train", *argv]) == 0
        return calls[-1][0][0]

    return run


def test_flags_become_settings(train, scene):
    flags = "--max-steps 9 --ssim-lambda=0.5 --eval-steps 3,4 5 --quiet --ckpt c.npz --shN-lr 1e-3"
    config = train(scene, *flags.split(), "--format", "unorm8")
    found = (config.run.max_steps, config.loss.ssim_lambda, config.run.eval_steps, config.run.quiet)
    assert found == (9, 0.5, (3, 4, 5), True)
    found = config.run.ckpt, config.raster.hardware.format, config.model.shN_lr
    assert found == (Path("c.npz"), "unorm8", 1e-3)
    assert config.scene.data_dir == Path(scene).absolute()
    assert config.run.result_dir == Path("results/garden")
    assert train(scene, "--random_background").scene.background == "random"
    assert train(scene, "--white-background").scene.background == "white"
    assert train(scene, "--config", "quick").run.max_steps < 30_000  # a preset by its name


def test_device_comes_from_flag_then_environment_then_preset(train, scene, monkeypatch):
    Path("p.toml").write_text("device = 2\n")
    assert train(scene, "--config", "p.toml").run.device == "2"
    monkeypatch.setenv("HARDSPLAT_DEVICE", "llvmpipe")
    assert train(scene, "--config", "p.toml").run.device == "llvmpipe"
    assert train(scene, "--device", "0").run.device == "0"
    assert main(["--device", "1", "train", scene]) == 0


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "doctor"])
def test_every_command_takes_the_device_of_the_environment(monkeypatch, error_of, tmp_path, name):
    """Commands that use no GPU, too: none ends in a traceback for it."""
    monkeypatch.setenv("HARDSPLAT_DEVICE", "x")
    files = [tmp_path / "nothing", *([tmp_path / "a.spz"] if name == "convert" else [])]
    assert error_of(name, *files)


EVAL, VIEW, PAGE = "train.measure.command.evaluate_run", "view.show.view", "export.page.export"
ASKED = dict(data_dir="s", result_dir="r", device="0")
SEEN = dict(data_dir=Path("garden"), data_factor=2, format="float32")
HANDLED = [  # command line, the function that it calls, what that gets
    ("eval r/garden", EVAL, "r/garden", {}),
    ("eval a.ply --data_dir s --result-dir r --device 0", EVAL, "a.ply", ASKED),
    ("lod r out --up=z", "export.lod.lod", "r out", {"up": "z"}),
    ("view r --max-splats 9", VIEW, "r", {"max_splats": 9}),
    ("export a.ply b.html --up=z", PAGE, "a.ply b.html", {"up": "z"}),
    ("export a.ply --up z b.html", PAGE, "a.ply b.html", {"up": "z"}),
    ("export --up z a.ply b.html", PAGE, "a.ply b.html", {"up": "z"}),
    ("export a.ply b.html --up -z", PAGE, "a.ply b.html", {"up": "-z"}),
    ("export a.ply -o b.html", PAGE, "a.ply b.html", {}),
    ("lod --output out r", "export.lod.lod", "r out", {}),
    ("export a.ply b.html --up=-z", PAGE, "a.ply b.html", {"up": "-z"}),
    ("view a.ply --data-dir garden --data-factor 2 --format float32", VIEW, "a.ply", SEEN),
]


@pytest.mark.parametrize("argv, target, words, named", HANDLED)
def test_commands_pass_on_what_was_given(stand_in, argv, target, words, named):
    calls = stand_in(*f"hardsplat.{target}".rsplit(".", 1))
    assert main(argv.split()) == 0
    assert calls == [(tuple(words.split()), named)]


BAD = """
    train | no scene given: hardsplat train SCENE, a FOLDER
    train garden --data-dir garden | the scene is given twice: as SCENE and as --data-dir
    train garden --max-step 3 | unknown flag '--max-step'; did you mean '--max-steps'?
    train garden --iterations 3 | unknown flag '--iterations'; did you mean '--max-steps'?
    train garden --ppisp-lr 3 | unknown flag '--ppisp-lr'; did you mean '--exposure-lr'?
    view a.ply --fullscreen | unknown flag '--fullscreen' (see hardsplat view --help)
    eval a --max-steps 3 | unknown flag '--max-steps' (see hardsplat eval --help)
    eval a b | unexpected argument 'b' (see hardsplat eval --help)
    render a b.gif | unexpected argument 'b.gif'; to write it, -o b.gif (see RENDER)
    train garden --max-steps -3 | --max-steps: expected a whole number of at least 1, got -3
    train garden --max_steps many | --max-steps: expected a whole number, got 'many'
    train garden --means-lr nan | --means-lr: expected a number of at least 1e-15, got nan
    train --eval-steps 3 a | --eval-steps: expected a list of whole numbers, got ['3', 'a']
    train garden --reduction fast | --reduction: expected one of auto, REDUCTIONS, got 'fast'
    train --serve garden | --serve garden: expected PORT or HOST:PORT, such as 8080 or 0.0.0.0:8080
    export a.ply --up z b.html c.html | unexpected argument 'c.html' (see hardsplat export --help)
    train garden --seed | --seed: expected a value (see hardsplat train --help)
    train garden --quiet=yes | --quiet: takes no value, got 'yes' (see hardsplat train --help)
    train garden -q | unknown flag '-q' (see hardsplat train --help)
    train garden --Quiet | unknown flag '--Quiet'; did you mean '--quiet'?
    render a --frames ten | --frames: expected a whole number, got 'ten' (see RENDER)
    render a --fov x | --fov: expected a number, got 'x' (see hardsplat render --help)
    render a --range 1 | --range: expected 2 values (see hardsplat render --help)
    render a --range 1 b | --range: expected a number, got 'b' (see hardsplat render --help)
    render a --mode | --mode: expected one value or more (see hardsplat render --help)
    eval a --lpips x | --lpips: expected one of LPIPS, got 'x' (see hardsplat eval --help)
    --seed 1 train a | unknown flag '--seed'; flags of a command stand BEHIND (see hardsplat --help)
    --Version | unknown flag '--Version'; did you mean '--version'?
    TRAIN garden | unknown command 'TRAIN'; did you mean 'train'?
    train gardn | scene HERE/gardn does not exist
    trian garden | unknown command 'trian'; did you mean 'train'?
    qqq | unknown command 'qqq'; there are COMMANDS
    --device 0 | the following arguments are required: COMMAND (see hardsplat --help)
"""


@pytest.mark.parametrize("line", BAD.strip("\n").splitlines())
def test_bad_command_lines_get_one_line(error_of, scene, tmp_path, line):
    argv, message = line.strip().split("| ", 1)
    message = message.replace("REDUCTIONS", ", ".join(REDUCTIONS)).replace("HERE", str(tmp_path))
    folder = "folder with images/ and sparse/0/, or with transforms.json"
    message = message.replace("COMMANDS", ", ".join(COMMANDS)).replace("FOLDER", folder)
    message = message.replace("BEHIND", "behind its name").replace("LPIPS", "alex, vgg, vgg-3dgs")
    message = message.replace("RENDER", "hardsplat render --help")
    assert error_of(*argv.split()) == message


def test_a_result_folder_is_no_scene(error_of, train, scene, tmp_path):
    result = tmp_path / "garden"
    (result / "transforms.json").unlink()
    (result / "config.toml").write_text("")
    words = "this is a result folder; add --resume to continue it, or give its scene"
    assert error_of("train", scene) == f"{result}: {words}"
    (result / "config.toml").unlink()
    (result / "ckpts").mkdir()
    words = "its config.toml is missing, which says how to resume: hardsplat train SCENE"
    error = error_of("train", scene, "--resume")
    assert error.startswith(f"{result}: {words} --result-dir {result}")
    (result / "ckpts").rmdir()
    words = "neither a scene nor a run that began its first step; begin it again: hardsplat train"
    assert error_of("train", scene, "--resume").startswith(f"{result}: {words} SCENE --result-dir")
    (result / "sparse").mkdir()
    train(scene)  # a scene that holds its own result
    # of a run whose scene has moved
    (run := tmp_path / "run").mkdir()
    (run / "config.toml").write_text('data_dir = "gone"')
    assert error_of("train", run, "--resume").endswith("has moved, name it: --data-dir SCENE")
    config = train(str(run), "--resume", "--data-dir", scene)
    assert (config.run.result_dir, config.scene.data_dir) == (run, result)


def test_view_trains_on_without_a_window(stand_in, scene, capsys):
    trained = stand_in("hardsplat.train.run.trainer", "run_training")
    windows = stand_in("hardsplat.view.preview", "TrainingWindow", "a window")
    assert main(["train", scene]) == 0 and not windows and trained[-1][0][1] == []
    assert main(["train", scene, "--view"]) == 0 and trained[-1][0][1] == ["a window"]
    assert windows[-1][1] == {"stays": True}
    assert "view" not in FIELDS  # how a run is watched is no setting of it
    why = UserError("no window: there is no display")
    stand_in("hardsplat.view.preview", "TrainingWindow", why)
    capsys.readouterr()
    assert main(["train", scene, "--view"]) == 0 and trained[-1][0][1] == []
    note = "note: no window: there is no display; training continues without --view\n"
    assert capsys.readouterr().err == note


def help_of(capsys, *argv) -> str:
    with pytest.raises(SystemExit) as stop:
        main(list(argv))
    assert stop.value.code == 0
    return capsys.readouterr().out


def test_help_is_a_command_too(capsys):
    assert help_of(capsys, "help", "eval") == help_of(capsys, "eval", "-h")
    assert help_of(capsys) == help_of(capsys, "help") == help_of(capsys, "--help")


@pytest.mark.parametrize("command", ["train", "sweep"])
def test_help_shows_the_common_flags_and_says_how_to_see_all(capsys, command):
    text, whole = (help_of(capsys, command, *flags) for flags in (["--help"], ["-h", "all"]))
    assert text.count("\n") < 60
    assert "--max-steps" in text and "--config" in text and "--adam-beta1" not in text
    few, every = (set(re.findall(r"^  (--[\w-]+)", t, re.MULTILINE)) for t in (text, whole))
    assert few < every
    assert text.rstrip().endswith(f" more flags: hardsplat {command} --help all")
    assert int(re.search(r"(\d+) more flags", text)[1]) == len(every) - len(few)
    assert whole.index("--max-steps") < whole.index("--adam-beta1")


LOADS = """
import sys
try: import hardsplat.{}
except SystemExit: pass
sys.exit(' '.join(set('{}'.split()) & sys.modules.keys()))
"""
HELP, TRAINER = "cli; hardsplat.cli.main(['--help'])", "gpu.probe, hardsplat.train.run.trainer"
LOADED = {HELP: "vulkan numpy scipy cv2 PIL imageio av tqdm matplotlib"}
LOADED[TRAINER] = "scipy matplotlib imageio jinja2 plyfile pycolmap trimesh skimage av cv2"


def python(*argv, stdout=subprocess.PIPE, **environment):
    pipes = dict(stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60)
    return subprocess.run([sys.executable, *argv], env={**os.environ, **environment}, **pipes)


@pytest.mark.parametrize("begins, without", LOADED.items(), ids=["help", "training"])
def test_what_begins_soon_loads_nothing_that_it_does_not_need(begins, without):
    assert python("-c", LOADS.format(begins, without)).stderr.strip() == ""


ALONE = """
import os, sys
from hardsplat.cli import main, train
def check(config): sys.exit('numpy is loaded') if 'numpy' in sys.modules else None
train.require_scene = check
train.reading = lambda config, clock: sys.exit(os.environ[train.PRODUCTS] != '1')
main(['train', 'anywhere'])
"""


def test_threads_of_a_training_make_their_products_alone():
    """OpenBLAS reads how many threads it has when NumPy is loaded."""
    without = {name: value for name, value in os.environ.items() if name != PRODUCTS}
    command = [sys.executable, "-c", ALONE]
    done = subprocess.run(command, env=without, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


SAYS = """
import sys
from dataclasses import replace
from hardsplat.cli import COMMANDS, run
COMMANDS['doctor'] = replace(COMMANDS['doctor'], handle=lambda flags: print('ready'))
sys.argv = ['hardsplat', 'doctor']
run()
"""


@pytest.fixture
def handlers():
    """Those of a new process."""
    new = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in new.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


SIGNALS = [(signal.SIGINT, "130", "interrupted"), (signal.SIGTERM, "143", "terminated")]


@pytest.mark.parametrize("number, code, word", SIGNALS)
def test_a_signal_before_anything_is_imported_is_a_line(
    handlers, monkeypatch, capsys, number, code, word
):
    def find_spec(name, *_):
        if name == "hardsplat.cli":
            signal.getsignal(number)(number, None)

    monkeypatch.delitem(sys.modules, "hardsplat.cli")
    finder = types.SimpleNamespace(find_spec=find_spec)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    with pytest.raises(SystemExit, match=code):
        run()
    assert capsys.readouterr().err == f"hardsplat: {word}\n"


def test_whoever_reads_the_output_may_stop():
    """As `hardsplat train --help all | head -1` does."""
    program = f"{shlex.quote(sys.executable)} -m hardsplat train --help all"
    command = ["bash", "-c", f"{program} | head -1; exit ${{PIPESTATUS[0]}}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.stdout.count("\n")) == ("", 1) and done.returncode in (0, 141)
    with open("/dev/full", "w") as full:
        done = python("-c", SAYS, stdout=full)
    error = "hardsplat: error: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, error)


def test_an_error_of_a_file_that_no_command_expects(stand_in, error_of):
    stand_in("hardsplat.study.doctor", "report", PermissionError(13, "Permission denied", "a/b"))
    assert error_of("doctor") == "a/b: Permission denied"

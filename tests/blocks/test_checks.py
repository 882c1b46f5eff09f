"""What workers of blocks must have, and blocks that fail: a line each, if possible at once."""

import json
import shutil
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest

from hardsplat.base.errors import UserError
from hardsplat.base.version import __version__
from hardsplat.blocks import checks, tasks
from hardsplat.blocks.checks import Answer, Question, answer, check
from hardsplat.blocks.cut import BlockBox
from hardsplat.blocks.plan import SceneBlock
from hardsplat.settings.run import BlockSettings
from hardsplat.settings.train import TrainConfig
from hardsplat.tables import quantities
from tests.helpers import needs
from tests.helpers.tables import refuses

Disk = namedtuple("Disk", "total used free")


@pytest.fixture
def question(tmp_path) -> Question:
    photograph, token = tmp_path / "a.jpg", ".asked"
    photograph.touch()
    (tmp_path / token).touch()
    return Question(str(tmp_path), token, (str(photograph),), 1, "auto")


BAD = {
    "another hardsplat": (lambda q: (q, "0.0", "0"), "it has hardsplat"),
    "a folder not shared": (lambda q: (replace(q, token=".other"), __version__, "0"), "share the"),
    "photographs missing": (
        lambda q: (replace(q, photographs=("/no/b.jpg", *q.photographs)), __version__, "0"),
        "1 photographs are missing there, the first /no/b.jpg",
    ),
    "no device": (lambda q: (q, __version__, "99"), "99"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_worker_that_cannot_train_says_why(question, what):
    words, expected = BAD[what]
    error = Answer(**answer(*words(question))).error
    assert expected in error and "\n" not in error


def test_workers_of_a_cluster_answer(question):
    needs.module("distributed")
    from distributed import LocalCluster

    how = dict(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None)
    with LocalCluster(resources={"device": 1}, **how) as cluster:
        address = cluster.scheduler_address
        ((name, found),) = check(question, [], address, 10).items()
        assert found.splats > 10_000 and found.free > 0 and not found.error and "://" in name
        missing = replace(question, photographs=("/no/b.jpg",))
        refuses(r"/no/b\.jpg", check, missing, [], address, 10)
    with LocalCluster(**how) as cluster, pytest.raises(UserError, match="offers a device"):
        check(question, [], cluster.scheduler_address, 10)


def test_an_old_worker_and_a_full_disk_are_named(question, monkeypatch):
    said: dict = {"tcp://a:1": {"device": "x", "splats": 9, "free": 1 << 40}}
    monkeypatch.setattr(checks, "ask_workers", lambda *args: said)
    assert check(question, [], "tcp://s:1", 10**6)["tcp://a:1"].splats == 9
    words = "tcp://a:1: .* GiB are free .* 1,000,000,000 splats take"
    refuses(words, check, question, [], "tcp://s:1", 10**9)
    check(question, [], "tcp://s:1", 10**9, there=10**13)  # which the folder has by now
    # blocks that are done keep a quarter; what the device holds is polished as a whole
    most = (1 << 40) // (4 * quantities.numbers(question.sh_degree) * 8)
    check(question, [], "tcp://s:1", most, blocks=4)
    said["tcp://a:1"]["splats"] = most
    for blocks in (4, None):
        refuses("GiB are free", check, question, [], "tcp://s:1", most, blocks=blocks)
    said["tcp://b:1"] = ModuleNotFoundError("no module named hardsplat.blocks.checks")
    refuses(f"tcp://b:1: it has another.* {__version__}", check, question, [], "tcp://s:1", 10)


def test_a_block_of_another_plan_is_trained_again(tmp_path, capsys):
    block = SceneBlock("block-0", BlockBox((0.0, 0.0), (1.0, 1.0), (1, 1)), ("a.jpg",), 10, 20)
    flat = TrainConfig().flat()
    shared = {"settings": {n: str(v) if isinstance(v, Path) else v for n, v in flat.items()}}

    def task(block, **own):
        settings = {"settings": shared["settings"] | own}
        path = tasks.write_task(tmp_path, block, [("x.ply", ())], True, settings)
        trained = (path / "block.json").is_file()
        (path / "block.json").write_text(json.dumps({"status": "done"}))
        (path / "splats.ply").touch()
        return trained, "".join(capsys.readouterr())

    assert task(block) == (False, "")
    assert task(replace(block, seconds=9.0), quiet=True, noise_lr=9.0) == (True, "")  # of mcmc
    trained, said = task(block, sh_degree=1)
    assert not trained and "block-0 was trained with another --sh-degree: it is trained" in said
    assert (tmp_path / "block-0" / "earlier_1" / "splats.ply").is_file()
    other = replace(block, photographs=("b",), cap=9)
    assert "another photographs, cap: " in task(other, sh_degree=1)[1]


def test_a_block_that_fails_three_times_is_named(tmp_path, monkeypatch, capsys):
    tried = []
    ended = lambda module, folder, device, show: (tried.append(folder.name), -9)[1]
    monkeypatch.setattr(tasks, "run_child", ended)
    assert "SIGKILL" in (tasks.train_here(tmp_path) or "") and len(tried) == 3
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Disk(9, 9, 0))
    assert "is full" in (tasks.train_here(tmp_path) or "")
    monkeypatch.setattr(tasks, "run_child", lambda *args, **how: 130)
    assert tasks.train_here(tmp_path) == "interrupted"  # not begun again
    monkeypatch.undo()

    def run(module, folder, device, show):
        good = folder.name != "block-001"
        if good:
            (folder / "block.json").write_text(json.dumps({"status": "done"}))
        return 0 if good else -11

    monkeypatch.setattr(tasks, "run_child", run)
    folders = [tmp_path / f"block-00{n}" for n in range(3)]
    for folder in folders:
        folder.mkdir()
        (folder / "task.json").touch()
    (failed,) = tasks.train_tasks(folders, BlockSettings(block_devices="0")).items()
    assert failed[0] == "block-001" and "SIGSEGV" in failed[1]
    assert [tasks.outcome_of(f).get("status") for f in folders] == ["done", None, "done"]
    assert "block-001 failed: " in "".join(capsys.readouterr())

"""`train --blocks`: a region in training, blocks on workers, one that is killed, bad input."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from hardsplat.blocks import leaf
from hardsplat.blocks.scaffold import train_scaffold
from hardsplat.blocks.tasks import train_task
from hardsplat.cli import main
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import load_splats
from hardsplat.model.region import Region
from hardsplat.step.photos import Photos
from hardsplat.train.job.facts import ScenePart, training_views
from hardsplat.train.session.session import Session
from tests.helpers import needs
from tests.helpers.leaks import opens
from tests.helpers.tables import argv
from tests.helpers.training import OPENED, job_of, settings, splats_of

pytestmark = pytest.mark.usefixtures("on_device")
FAST = "--max-steps 60 --sh-degree 1 --deterministic --cap-max 700 --refine-start-iter 5"
FAST += " --refine-every 10 --refine-stop-iter 50 --checkpoint-every 10 --polish-steps 4 --quiet"


@pytest.mark.parametrize("shape", ["box", "ball"])
def test_splats_outside_of_a_region_do_not_grow(device, scene, shape):
    config = settings(
        scene,
        strategy="budget",
        cap_max=2_000,
        score_every=2,
        grow_absolute=1e-9,
        refine_stop_iter=200,
        max_steps=1_000,
    )
    loaded = load_scene(scene)
    first = splats_of(config, loaded)
    middle = np.median(first.means, axis=0)
    half = float(np.median(np.linalg.norm(first.means - middle, axis=1)))
    numbers = (middle[0], *[-1e29] * 2, *[1e29] * 3) if shape == "box" else (*middle, half)
    region = replace(Region.of(numbers), outside=0.0)
    job = job_of(device, config, training_views(loaded), part=ScenePart(region))
    photos = Photos(device, [loaded.views[i].load() for i in loaded.train], "gpu", 100)
    OPENED.append(session := Session(device, job, photos, lambda batch: None))
    session.start(first)
    for _ in range(3):
        session.run(10)
        session.refine()
    session.drain()
    splats = session.store.gaussians()
    grown = region.inside(splats.means).sum() - region.inside(first.means).sum()
    others = len(splats) - len(first) - grown
    assert grown > 100 and others < 0.3 * grown  # halves of splats at the border lie outside


@pytest.fixture(scope="module")
def planned(scene, module_device, tmp_path_factory):
    """(scene, folder) with a scaffold and the plan of two blocks."""
    folder = tmp_path_factory.mktemp("blocks") / "planned"
    words = f"plan {scene} --blocks 2 {FAST} --result-dir"
    with opens(module_device):
        assert main([*argv(words), str(folder)]) == 0
    assert {"plan.json", "plan.png", "scaffold", "config.toml"} <= set(os.listdir(folder))
    return scene, folder


def train(scene, folder, *more) -> int:
    return main([*argv(f"train {scene} --blocks 2 {FAST} --result-dir"), str(folder), *more])


@pytest.fixture(scope="module")
def alone(planned, module_device, tmp_path_factory):
    """The folder of both blocks trained by one device, in this process."""
    scene, plan = planned
    folder = shutil.copytree(plan, tmp_path_factory.mktemp("alone") / "alone")
    run = lambda module, folder, device, show: leaf.work(folder, device, True)
    with pytest.MonkeyPatch.context() as patch, opens(module_device):
        patch.setattr("hardsplat.blocks.tasks.run_child", run)
        assert train(scene, folder, "--block-devices", "0") == 0
    return folder


def children(folder) -> list[int]:
    """Processes that train blocks below a folder."""
    words = ["pgrep", "-f", f"hardsplat.blocks.leaf {folder.resolve()}/"]
    found = subprocess.run(words, capture_output=True, text=True)
    return list(map(int, found.stdout.split()))


def parent(process: int) -> int:
    return int((open(f"/proc/{process}/stat").read().rpartition(")")[2].split())[1])


def test_a_scaffold_has_a_third_of_the_splats(scene, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(
        "hardsplat.train.run.trainer.run_training", lambda config, **how: made.append(config)
    )
    config = replace(settings(scene), typed=frozenset({"near_plane"}))
    train_scaffold(config, load_scene(scene), tmp_path, 30, 60_000)
    assert made[0].densify.cap_max == 20_000
    assert "near_plane" in made[0].typed  # the user's stays


def test_a_killed_worker_costs_nothing_but_time(planned, alone, tmp_path, capfd):
    """Two workers leave the bytes of one device, one of them killed after its first checkpoint."""
    needs.module("distributed")
    from distributed import LocalCluster

    (scene, plan), joined = planned, (alone / "splats.ply").read_bytes()
    killed, again = shutil.copytree(plan, tmp_path / "killed"), tmp_path / "again"
    victims: list[int] = []

    def kill() -> None:
        for _ in range(3_000):
            for child in children(killed):
                if any((killed / "blocks").glob("*/ckpts/*")):
                    victims.append(parent(child))
                    os.kill(victims[0], signal.SIGKILL)
                    return
            time.sleep(0.02)

    killer, how = threading.Thread(target=kill), dict(dashboard_address=None, memory_limit=0)
    killer.start()
    with LocalCluster(2, threads_per_worker=1, resources={"device": 1}, **how) as cluster:
        assert train(scene, killed, "--cluster", cluster.scheduler_address) == 0
    killer.join()
    assert victims, "no worker was killed"
    assert (killed / "splats.ply").read_bytes() == joined
    metrics = json.loads((killed / "metrics.json").read_text())
    assert metrics["splats"] == len(load_splats(killed / "splats.ply"))
    assert len(metrics["blocks"]) == 2 and metrics["evaluations"][0]["psnr"] > 10
    own = sum(block["steps"] for block in metrics["blocks"].values())
    assert metrics["polish_steps"] == 4 and metrics["steps"] == own + 4
    assert metrics["evaluations"][0]["step"] == metrics["steps"]
    assert not (killed / "unpolished").exists()
    assert metrics["seams"]["across"] + metrics["seams"]["within"] == 2
    shutil.copytree(alone, again)
    (again / "splats.ply").unlink()  # finished blocks are joined again, not trained again
    capfd.readouterr()
    assert main(["train", str(again), "--resume"]) == 0
    assert "2 of 2 blocks were trained before" in "".join(capfd.readouterr())
    assert (again / "splats.ply").read_bytes() == joined


def test_splats_before_their_polish_pass_for_no_result(planned, alone, tmp_path, monkeypatch):
    """As after a kill there: until it ends, the folder has no splats.ply."""
    (scene, plan), seen = planned, []
    folder = shutil.copytree(plan, tmp_path / "out")
    shutil.copytree(alone / "blocks", folder / "blocks")

    def interrupted(*given):
        seen.append(given)
        assert given[-2].is_file()
        raise KeyboardInterrupt(signal.SIGTERM)

    monkeypatch.setattr("hardsplat.blocks.run.polish_whole", interrupted)
    assert train(scene, folder, "--polish-steps", "1000") == 128 + signal.SIGTERM
    assert seen[0][-1] == 60  # never more steps than --max-steps
    assert not (folder / "splats.ply").exists() and not (folder / "metrics.json").exists()
    assert main(["eval", str(folder)]) == 2


REFUSED = {
    "--blocks 0": "takes auto, a number",
    "--blocks 2 --strategy mcmc": "--strategy mcmc",
    "--blocks 2 --depth-lambda 0.1": "--depth-lambda 0.1",
    "--blocks 500": "no photographs",
    "--polish-steps 5": "belongs to --blocks",
    "--blocks 2 --view": "do not show blocks",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_blocks_cannot_have_is_refused(planned, tmp_path, error_of, words):
    scene, plan = planned
    if words == "--blocks 500":
        shutil.copytree(plan / "scaffold", tmp_path / "run/scaffold")
    line = error_of(f"train {scene} {words} --quiet --result-dir {tmp_path / 'run'}")
    assert REFUSED[words] in line


@pytest.mark.parametrize("flag", ["--cluster tcp://127.0.0.1:1", "--cluster nothing.json"])
def test_a_cluster_that_is_not_there_is_named(planned, tmp_path, error_of, flag, monkeypatch):
    scene, plan = planned
    needs.module("distributed")
    monkeypatch.setattr("hardsplat.study.workers.ANSWER", "1s")
    shutil.copytree(plan, tmp_path / "run")
    line = error_of(f"train {scene} --blocks 2 {FAST} {flag} --result-dir {tmp_path / 'run'}")
    assert flag.split()[1] in line


def test_workers_that_differ_are_named(tmp_path):
    assert "this worker has hardsplat" in (train_task(tmp_path, "0") or "")
    from hardsplat.base.version import __version__

    assert "does not see" in (train_task(tmp_path, __version__) or "")

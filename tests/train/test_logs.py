"""--log: rows as a run goes, also of a run that goes on; pictures of TensorBoard."""

import csv
import json
import sys
from types import SimpleNamespace

import pytest

from hardsplat.train import run_training as train
from hardsplat.train.watchers import logs
from tests.helpers import needs
from tests.helpers.tables import refuses
from tests.helpers.training import settings

pytestmark = pytest.mark.usefixtures("on_device")


def json_records(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def csv_records(run):
    with (run / "metrics.csv").open(newline="") as file:
        rows = csv.DictReader(file)
        return [{name: float(value) for name, value in row.items() if value} for row in rows]


DAMAGE = {  # of a part that was lost, and of a crash in the middle of a row
    "jsonl": '{"step": 15, "loss": 1.0}\nnot a row\n{"step": 12',
    "csv": "15,1.0,1.0,1.0,1,1.0,,\nnot a row\n12,1.",
}


@pytest.mark.parametrize("log, read", [("jsonl", json_records), ("csv", csv_records)])
def test_rows_are_those_of_the_run(scene, tmp_path, log, read):
    """Up to its step, where a run goes on."""
    run = tmp_path / "run"
    steps = lambda: [r["step"] for r in read(run) if "loss" in r]
    metrics = train(settings(scene, run, max_steps=10, eval_steps=(5,), log=log))
    first = read(run)
    batches = [r for r in first if "loss" in r]
    for name in ("step", "loss", "psnr", "splats", "seconds"):
        assert [r[name] for r in batches] == metrics["curve"][name]
    measured = [r for r in first if "eval_psnr" in r]
    for name, row in (("step", "step"), ("psnr", "eval_psnr"), ("ssim", "eval_ssim")):
        assert [r[row] for r in measured] == [e[name] for e in metrics["evaluations"]]
    assert all(r["steps_per_second"] > 0 for r in batches)
    with (run / f"metrics.{log}").open("a") as file:
        file.write(DAMAGE[log])
    train(settings(scene, run, max_steps=20, resume=True, log=log))
    records = read(run)
    assert records[: len(first)] == first and steps() == [5, 10, 15, 20]
    train(settings(scene, run, max_steps=5, log=log))  # another run, which archives the first
    assert steps() == [5] and read(run / "earlier_1") == records


def test_tensorboard_gets_scalars_and_pictures(scene, tmp_path, monkeypatch):
    needs.module("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c

    monkeypatch.setattr(logs, "PICTURE_SECONDS", 0.0)
    run, values = tmp_path / "run", []
    metrics = train(settings(scene, run, max_steps=10, log="tensorboard"))
    (file,) = (run / "tensorboard").iterdir()
    data = file.read_bytes()
    while data:  # records: length, its checksum, the event, its checksum
        size = int.from_bytes(data[:8], "little")
        assert int.from_bytes(data[8:12], "little") == masked_crc32c(data[:8])
        event = Event.FromString(data[12 : 12 + size])
        values += [(v.tag, event.step, v.simple_value, v.image) for v in event.summary.value]
        data = data[16 + size :]
    scalars = {(tag, step): value for tag, step, value, image in values if not image.width}
    psnr, curve = metrics["evaluations"][-1]["psnr"], metrics["curve"]
    assert scalars["held-out/psnr", 10] == pytest.approx(psnr)
    assert [scalars["train/loss", s] for s in curve["step"]] == pytest.approx(curve["loss"])
    shown = [image for tag, _, _, image in values if tag == "held-out/view_0000.jpg"]
    assert len(shown) > 1 and {(image.height, image.width) for image in shown} == {(24, 64)}


def test_without_tensorboard_it_says_what_to_install(scene, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    words = "pip install 'hardsplat\\[tensorboard\\]'"
    refuses(words, train, settings(scene, tmp_path / "run", log="tensorboard"))
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made_again_is_named(tmp_path, monkeypatch):
    needs.module("tensorboardX")
    logger = logs.TensorBoard()
    (tmp_path / "tensorboard").write_text("a file")
    refuses("tensorboard", logger.begin_again, SimpleNamespace(folder=tmp_path))

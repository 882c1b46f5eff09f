"""One run of a sweep, in its own process: `python -m hardsplat.study.sweep.one_run FOLDER`.

A lost device, a driver that aborts or the kernel's out-of-memory killer end a process. The sweep
reads what is left and continues, and the next run gets a fresh driver. It ends, after saving, when
its standard input closes: its parent may be gone. `--quiet` leaves out progress.
"""

from __future__ import annotations

import shutil
import sys
import time
import traceback
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.base.version import __version__
from hardsplat.gpu.probe import open_device
from hardsplat.io.formats import checkpoint
from hardsplat.raster.backends import BACKENDS, fastest
from hardsplat.raster.core.sinks import moments_of
from hardsplat.settings.train import TrainConfig
from hardsplat.study.bench.bench import commit
from hardsplat.study.sweep import runs
from hardsplat.study.workers import as_child
from hardsplat.train import run_training


def run(folder: Path, device: str | None = None, quiet: bool = True) -> dict:
    """Trains and measures the run of run.json in the folder, and writes the outcome there. Raises
    KeyboardInterrupt after saving an interrupted run."""
    started = time.perf_counter()
    record = runs.read(folder)
    if record is None:
        raise UserError(f"{folder / runs.NAME}: not a run of a sweep")
    record |= {
        "status": "running",
        "error": None,
        "hardsplat": __version__,
        "commit": commit(),
        "started": datetime.now().astimezone().isoformat(timespec="seconds"),
    }
    try:
        config = TrainConfig.of(**record["settings"], result_dir=folder, device=device, quiet=quiet)
        if lacking := _lacking(config):
            record |= {"status": "skipped", "error": lacking}
        else:
            config = config.changed(resume=checkpoint.newest(folder) is not None)
            record["metrics"] = run_training(replace(config, typed=frozenset(record["named"])))
            record["status"] = "done"
            # several times the size of the splats, and the run is at its end
            shutil.rmtree(folder / "ckpts", ignore_errors=True)
    except KeyboardInterrupt:
        record["status"] = "interrupted"
        raise
    except UserError as error:
        record |= {"status": "failed", "error": str(error)}
    except Exception as error:  # whatever it is, the other runs of the sweep go on
        traceback.print_exc()
        record |= {"status": "failed", "error": f"{type(error).__name__}: {error}"}
    finally:
        record["seconds"] = time.perf_counter() - started
        runs.write(folder, record)
    return record


def _lacking(config: TrainConfig) -> str | None:
    with closing(open_device(config.run.device)) as device:
        raster, gradient = config.raster, config.gradient
        try:
            backend = BACKENDS[fastest(device, raster, gradient)]
            backend.resolve(device, backend.options.of(raster, gradient))
            moments_of(device, config.adam.moments)
        except UserError as error:
            return str(error)
    return None


if __name__ == "__main__":
    sys.exit(as_child(lambda *given: run(*given)["status"] == "failed"))

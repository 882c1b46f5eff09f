"""Runs of a sweep in the process of the test, where pipelines are built already."""

import io
import subprocess
from pathlib import Path

from PIL import Image

from hardsplat.study import workers
from hardsplat.study.sweep import one_run


class InProcess:
    """Stands in for the process of a run."""

    stdin = None

    def __init__(self, folder):
        self.folder = folder

    def wait(self, timeout):
        try:
            return int(one_run.run(self.folder)["status"] == "failed")
        except KeyboardInterrupt:
            return 130


def in_this_process(monkeypatch) -> list[Path]:
    """Has runs made here, without plots. Returns the folders of those made."""
    made, popen = [], subprocess.Popen
    Image.new("L", (1, 1)).save(blank := io.BytesIO(), "PNG")
    monkeypatch.setattr("hardsplat.report.charts.png", lambda figure: blank.getvalue())
    monkeypatch.setattr("hardsplat.study.sweep.page.plots", lambda records: [])

    def start(command, **how):
        if one_run.__name__ not in command:
            return popen(command, **how)
        made.append(Path(command[3]))
        return InProcess(made[-1])

    monkeypatch.setattr(workers.subprocess, "Popen", start)
    return made

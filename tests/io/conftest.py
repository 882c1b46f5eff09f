"""Programs of others that read and write splats."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import needs


@pytest.fixture(scope="module")
def splat_transform():
    """Runs PlayCanvas's program; skips where it is not installed."""
    modules = Path(sys.prefix, "node", "node_modules")  # where tools/test installs it
    program = modules / "@playcanvas" / "splat-transform" / "bin" / "cli.mjs"
    if not program.exists() or not shutil.which("node"):
        pytest.skip(needs.lacking("no splat-transform, which takes Node"))

    def run(*words):
        flags = ["node", program, "-q", "-w", "-g", "cpu", *map(str, words)]
        done = subprocess.run(flags, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stdout + done.stderr

    run.version = json.loads((program.parents[1] / "package.json").read_text())["version"]
    return run

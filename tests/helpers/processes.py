"""The command as a process of its own."""

import os
import subprocess
import sys

PATIENCE = 600  # s, on a busy machine


def process(*words, gone=(), **more: str) -> subprocess.CompletedProcess:
    """`hardsplat` with these words, after its end. gone, more: variables of the environment."""
    own = {name: value for name, value in os.environ.items() if name not in gone} | more
    command = [sys.executable, "-m", "hardsplat", *map(str, words)]
    return subprocess.run(command, env=own, capture_output=True, text=True, timeout=PATIENCE)

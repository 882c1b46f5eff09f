"""`python -m hardsplat` is the command `hardsplat`."""

from hardsplat.cli import run

run()

"""Averages of splats over steps, in planes of their own in the host's memory: samples are few and
late, when the device has the most splats."""

from __future__ import annotations

from hardsplat.base.errors import OutOfMemory
from hardsplat.gpu.device.queue import once
from hardsplat.gpu.memory.buffer import record_copy
from hardsplat.raster.core.parameters import Parameters


def begin_averages(parameters: Parameters, n: int) -> None:
    """Keeps averages of the n splats, which begin as the values of these. No step may be in flight.

    Raises OutOfMemory; then none are kept.
    """
    try:
        for planes in parameters.of_splats():
            planes.add("average")
    except OutOfMemory:
        drop_averages(parameters)
        raise
    _copy(parameters, n, "value", "average")
    parameters.write_table()


def take_averages(parameters: Parameters, n: int) -> None:
    """The n splats become their averages, which are kept no longer. No step may be in flight."""
    _copy(parameters, n, "average", "value")
    drop_averages(parameters)


def drop_averages(parameters: Parameters) -> None:
    """Frees the averages."""
    for planes in parameters.of_splats():
        planes.destroy("average")
    parameters.write_table()


def _copy(parameters: Parameters, n: int, source: str, target: str) -> None:
    """The planes of n splats from one role to another."""
    with once(parameters.device) as commands:
        for planes in parameters.of_splats():
            nbytes = n * planes.itemsize("value")
            for pair in zip(planes.buffers[source], planes.buffers[target]):
                record_copy(commands, *pair, [(0, 0, nbytes)])

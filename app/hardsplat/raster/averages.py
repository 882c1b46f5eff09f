"""Averages of splats over steps, in planes of their own."""

from __future__ import annotations

from hardsplat.base.errors import OutOfMemory
from hardsplat.gpu.memory.buffer import copy_regions
from hardsplat.raster.core.parameters import Parameters


def begin_averages(parameters: Parameters, n: int) -> None:
    """Keeps averages of the n splats, which begin as the values of these. No step may be in flight.

    Raises OutOfMemory; then none are kept.
    """
    try:
        for planes in parameters.of_splats():
            planes.add("average")
            for value, average in zip(planes.buffers["value"], planes.buffers["average"]):
                copy_regions(value, average, [(0, 0, n * planes.itemsize("value"))])
    except OutOfMemory:
        drop_averages(parameters)
        raise
    parameters.write_table()


def take_averages(parameters: Parameters) -> None:
    """Splats become their averages, which are kept no longer. No step may be in flight."""
    for planes in parameters.of_splats():
        buffers = planes.buffers
        if "average" in buffers:
            buffers["value"], buffers["average"] = buffers["average"], buffers["value"]
            for value in buffers["value"]:
                value.name = planes.quantity.name
    drop_averages(parameters)


def drop_averages(parameters: Parameters) -> None:
    """Frees the averages."""
    for planes in parameters.of_splats():
        planes.destroy("average")
    parameters.write_table()

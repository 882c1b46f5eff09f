"""Tests of the device: what is written, read and counted to find out what it can do."""

from hardsplat.contract.layout import BufferSpec, Subsystem

PROBE = Subsystem(
    "probe",
    "tests of the device",
    buffers=(
        BufferSpec(150, "source", "vec4", ("words",), "what a copy reads"),
        BufferSpec(151, "copied", "vec4", ("words",), "what a copy writes"),
    ),
    uses=("core",),
)

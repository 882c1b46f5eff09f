"""Tests of the device: what is written, read and counted to find out what it can do."""

from hardsplat.contract.layout import subsystem

PROBE = subsystem(
    "probe",
    "tests of the device",
    uses=("core",),
    buffers={
        "150 vec4 source[words]": "what a copy reads",
        "151 vec4 copied[words]": "what a copy writes",
    },
)

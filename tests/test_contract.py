"""The generated GLSL is what the Python contract says."""

import numpy as np

from hardsplat import contract
from tools import gen_contract


def test_generated_file_is_current():
    assert gen_contract.TARGET.read_text() == gen_contract.generate(), "run python -m tools.gen_contract"


def test_struct_sizes_have_no_padding():
    for name, fields in contract.STRUCTS.items():
        assert contract.dtype(name).itemsize == sum(contract.dtype(f.type).itemsize * f.count for f in fields)


def test_indirect_commands_are_where_vulkan_reads_them():
    assert contract.indirect_offset("splat_groups") == 0
    assert contract.indirect_offset("draw") == 36
    assert contract.dtype("Splat2D") == np.dtype(contract.dtype("Splat2D"))

"""Tiles with subgroups of other sizes, which lavapipe takes from the processor's vectors."""

import pytest

from hardsplat.raster.core.projection import Perspective
from hardsplat.raster.core.sinks import STORE
from hardsplat.raster.tiled import rasterizer as tiled
from hardsplat.raster.tiled.rows import TiledRows
from hardsplat.tables.gradients import ATOMICS, TILE_BACKWARDS
from tests.helpers import elsewhere


@pytest.mark.parametrize("bits, lanes", [(128, 4), (512, 16)])
def test_gradients_with_other_subgroups(device, bits, lanes):
    """All rows, against the oracle; the largest error measured was 3.6e-6."""
    if not device.name.startswith("llvmpipe"):
        pytest.skip("other drivers have one size")
    own = {"LP_NATIVE_VECTOR_WIDTH": str(bits), "HARDSPLAT_AUTO": "first"}
    found = elsewhere.found(own, "tiles")
    if found["lanes"] != lanes:
        pytest.skip(f"this processor has no vectors of {bits} bits")
    assert set(found["tiles"]) == set(TILE_BACKWARDS)
    for image, worst in found["tiles"].values():
        assert image <= 2e-6 and worst <= 2e-5, found


@pytest.mark.parametrize("lanes", [4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("name", TILE_BACKWARDS)
def test_subgroups_share_the_pixels_of_a_tile(lanes, name):
    """Of every size: workgroups of whole subgroups, whose pixels are those of the tile, once."""
    row = TILE_BACKWARDS[name]
    rows = TiledRows(row, ATOMICS["cas"])
    passes = {p.name: p for p in tiled.all_passes(Perspective(1, STORE), rows, 64, 64, lanes)}
    for each in ("draw", "draw backward"):
        spec = passes[each].spec
        assert spec["LOCAL_SIZE"] % lanes == 0 and spec["LANES"] == lanes
        if "PER_LANE" in spec:
            assert spec["LOCAL_SIZE"] * spec["PER_LANE"] == tiled.TILE**2
    forward = tiled.subgroups(lanes, tiled.FORWARD_PIXELS)
    assert forward * lanes * tiled.pixels_of(lanes, 32) == tiled.TILE**2
    assert tiled.subgroups(lanes, tiled.BACKWARD_PIXELS) <= 32  # bits of pair_subgroups
    if bucket := tiled.bucket_of(row, lanes):
        assert bucket % lanes == 0

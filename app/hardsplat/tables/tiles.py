"""How the tiled rasterizer finds gradients: the compute shader, and for those by pixel how a
subgroup's are summed (files that fill <reduce>)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TileBackward:
    """threshold: takes the constant THRESHOLD. cull: by pixel, a subgroup visits only the splats
    that touch its pixels. bucket: splats between the checkpoints of the forward pass; 0: as many as
    a subgroup has lanes; None: there are none. gathers: pairs' records, summed splat by splat
    afterwards, instead of atomics."""

    shader: str
    slots: tuple[tuple[str, str], ...]
    threshold: bool
    cull: bool
    bucket: int | None
    needs: tuple[str, ...]
    note: str
    gathers: bool = False

    @property
    def on_demand(self) -> bool:
        """Whether checkpoints are stored as far as they fit, for buckets that are reached; else for
        all, since the backward pass cannot continue from bucket to bucket or sums in one order."""
        return bool(self.slots) and self.bucket is not None and not self.gathers


_SUMS = ("subgroup_tiles", "float_sums")


def _by_pixel(reduce: str, note: str, **more) -> TileBackward:
    """By pixel, a tile at once, unless `more` says otherwise."""
    row: dict = {"share": "tile", "threshold": False, "cull": False, "bucket": None, **more}
    slots = (("reduce", reduce), ("share", f"tiled/share_{row.pop('share')}.glsl"))
    return TileBackward("tiled/backward.comp", slots, needs=_SUMS, note=note, **row)


# fmt: off
TILE_BACKWARDS = {
    "reduce-scatter": _by_pixel(
        "tiled/halving.glsl", "by pixel, 64 splats a workgroup, culled by subgroup, sums by "
        "recursive halving", share="bucket", cull=True, bucket=64),
    "per-splat": TileBackward(
        "tiled/backward_per_splat.comp", (), False, True, 0, _SUMS,
        "by splat, pixels handed along the lanes from checkpoints (Taming 3DGS)"),
    "distwar-butterfly": _by_pixel(
        "reduce/butterfly.glsl", "by pixel, whole subgroup where enough lanes contribute (DISTWAR "
        "SW-B)", threshold=True),
    "distwar-serial": _by_pixel(
        "reduce/serial.glsl", "by pixel, one lane adds up the others where enough contribute "
        "(DISTWAR SW-S)", threshold=True),
    "atomic": _by_pixel(
        "reduce/atomic.glsl", "by pixel, nine atomics a pixel and splat: the canonical baseline"),
    "gather": TileBackward(
        "tiled/backward.comp", (("atomics", "tiled/records.glsl"), ("reduce", "tiled/halving.glsl"),
                                ("share", "tiled/share_bucket.glsl")),
        False, True, 128, ("subgroup_tiles",),
        "as reduce-scatter, but a splat's sums are stored by pair and added in one order: "
        "bit-identical from run to run, for up to 148 bytes a pair", gathers=True),
}

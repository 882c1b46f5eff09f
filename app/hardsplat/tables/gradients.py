"""Where training has its gradients from, how draws sum those of fragments, and how they add them to
memory."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Gradient:
    statistics: bool  # finds what the adaptive densification decides by
    needs: tuple[str, ...]
    note: str


# fmt: off
GRADIENTS = {
    "analytic": Gradient(True, (), "the derivative of the image, splat by splat"),
    "stochastic": Gradient(False, ("perturbing_buffers",),
                           "two perturbed images, compared: no derivative and no order of "
                           "fragments, more steps (Deliot et al. 2024)"),
}
# fmt: on


def finds_statistics(gradient: str) -> bool:
    """Whether a gradient, `auto` among them, comes with what the adaptive densification decides
    by."""
    return gradient == "auto" or GRADIENTS[gradient].statistics


# How the backward draw sums gradients before its atomics: files that fill <reduce>.


@dataclass(frozen=True)
class Reduction:
    slot: str
    threshold: bool  # takes the constant THRESHOLD
    quads: bool  # has a <quads> slot
    needs: tuple[str, ...]
    note: str


_SUMS = ("subgroup_arithmetic", "subgroup_quad")

# The fastest first, of a backward draw of 2x2 blocks on an H200.
# fmt: off
REDUCTIONS = {
    "hybrid": Reduction("reduce/hybrid.glsl", True, True, _SUMS,
                        "whole subgroup where it holds one splat, else quad by quad"),
    "quad": Reduction("reduce/quad.glsl", False, True, _SUMS,
                      "four fragments to one; with lists, four blocks"),
    "subgroup": Reduction("reduce/subgroup.glsl", False, False, ("subgroup_arithmetic",),
                          "whole subgroup where it holds one splat, else atomics"),
    "atomic": Reduction("reduce/atomic.glsl", False, False, (),
                        "nine atomics a fragment: the baseline"),
}
# fmt: on


# How gradients are added to memory: files that fill <atomics>.


@dataclass(frozen=True)
class Atomics:
    slot: str
    needs: tuple[str, ...]
    note: str


# fmt: off
ATOMICS = {
    "native": Atomics("reduce/atomics_native.glsl", ("float_atomics",),
                      "float atomic add of the device"),
    "cas": Atomics("reduce/atomics_cas.glsl", ("swap_atomics",),
                   "compare and swap: runs everywhere, slower where splats are contended"),
}
# fmt: on


# How the tiled rasterizer finds gradients: the compute shader, and for those by pixel how a
# subgroup's are summed (files that fill <reduce>).


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


_TILE_SUMS = ("subgroup_tiles", "float_sums")


def _by_pixel(reduce: str, note: str, **more) -> TileBackward:
    """By pixel, a tile at once, unless `more` says otherwise."""
    row: dict = {"share": "tile", "threshold": False, "cull": False, "bucket": None, **more}
    slots = (("reduce", reduce), ("share", f"tiled/share_{row.pop('share')}.glsl"))
    return TileBackward("tiled/backward.comp", slots, needs=_TILE_SUMS, note=note, **row)


# fmt: off
TILE_BACKWARDS = {
    "reduce-scatter": _by_pixel(
        "tiled/halving.glsl", "by pixel, 64 splats a workgroup, culled by subgroup, sums by "
        "recursive halving", share="bucket", cull=True, bucket=64),
    "per-splat": TileBackward(
        "tiled/backward_per_splat.comp", (), False, True, 0, _TILE_SUMS,
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

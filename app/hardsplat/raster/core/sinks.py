"""Where gradients of parameters go: into planes, for the Python API, or into a step of Adam."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.raster.core.resolve import resolve
from hardsplat.tables import quantities
from hardsplat.tables.formats import MOMENT_FORMATS
from hardsplat.tables.quantities import Of

# The first plane of shN, the last quantity of splats.
_PLANE_shN = next(o.first_plane for o in quantities.offsets() if o.quantity.name == "shN")
GROUP = contract.CONSTANTS["GROUP"]
LANES = 64  # of a workgroup of optim/planes.comp
_ITEMS: dict[Of, str] = {"photograph": "photographs", "camera": "cameras", "texel": "texels"}


@dataclass(frozen=True)
class Sink:
    """stores: gradients are left for the Python API, and no other pass makes `d_image`. slots,
    reads, writes: what the last pass of the backward pass takes for it.

    visible_only: splats that were not visible are left alone. grows: the statistics of
    densification are collected. scores: there are draws of SCORES. cameras: what the
    camera gets is summed too. depths: steps draw depth as well, see projection.py. flat:
    weight of the mean thickness in the loss, per world unit. rows: splats are read, and their
    gradients stored, as PyTorch has them. Then the planes of log_scales and
    logit_opacities hold scales and opacities. That of sh0 holds all SH coefficients of a splat,
    as many as its width in the table says; there are no planes of shN. packed: splats are a working
    set, see raster/core/working.py.
    """

    stores: bool
    slots: Mapping[str, str]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    visible_only: bool = False
    grows: bool = False
    scores: bool = False
    cameras: bool = False
    depths: bool = False
    flat: float = 0.0
    rows: bool = False
    packed: bool = False
    # what it finds and leaves of each kind of items: "values", "moments" or "gradients"
    own: tuple[str, ...] = ()

    @property
    def statistics(self) -> tuple[str, ...]:
        """Statistics of splats that steps add to."""
        return ("grow_stats",) * self.grows + ("score_stats",) * self.scores


# Backward draws that find no gradients but what densification reads, each with its constants: of
# means, the sum of the absolute gradients of single pixels; of colours, T alpha times weights of
# pixels, which d_image has meanwhile.
SCORES: dict[str, dict[str, int]] = {"absolute": {"ABSOLUTE": True}, "weighted": {}}

STORE = Sink(True, {"sink": "optim/sink_store.glsl"}, own=("gradients",))
STORE_ROWS = replace(STORE, rows=True)


def adam(
    moments: str = "float32",
    visible_only: bool = False,
    grows: bool = True,
    scores: bool = False,
    cameras: bool = False,
    depths: bool = False,
    packed: bool = False,
    flat: float = 0.0,
) -> Sink:
    """The sink that takes a step of Adam. moments: a variant of MOMENT_FORMATS."""
    return Sink(
        stores=False,
        slots={"sink": "optim/sink_adam.glsl", "moments": MOMENT_FORMATS[moments].slot},
        reads=("adam_settings", "rates", "loss_terms"),
        writes=("term_sums",),
        visible_only=visible_only,
        grows=grows,
        scores=scores,
        cameras=cameras,
        depths=depths,
        flat=flat,
        packed=packed,
        own=("values", "moments"),
    )


def moments_of(device: Device, name: str) -> str:
    """How moments are stored, a variant of MOMENT_FORMATS. Raises UserError where the device lacks
    what that needs."""
    return resolve(device, "storage of moments", MOMENT_FORMATS, name, "moments")


def _owned(sink: Sink, kind: Of) -> tuple[str, ...]:
    names = {
        "values": quantities.values(kind),
        "moments": quantities.moments(kind),
        "gradients": quantities.gradients(kind, stored=True),
    }
    absent = quantities.QUANTITIES["shN"].d if sink.rows else ""
    return tuple(name for what in sink.own for name in names[what] if name != absent)


def _slots(sink: Sink, kind: Of) -> dict[str, str]:
    slots = {} if sink.stores else {"terms": f"contract/parameter_terms_{kind}.glsl"}
    if sink.packed and kind == "splat":
        slots["working"] = "working/adam.glsl"
    return {**sink.slots, **slots}


def splats_pass(
    sink: Sink, gradient: str, reads: tuple[str, ...], spec: Mapping[str, int | float] = {}
) -> ComputePass:
    """The gradients of all planes of splats -> the sink. gradient: the file that fills <gradient>;
    reads: what that needs."""
    owned, listed = _owned(sink, "splat"), () if sink.stores else ("moved_planes",)
    needed = ("frame", "counts", "seen", *listed, *reads, *sink.reads, *owned)
    needed += ("working", "model_counts") * sink.packed
    return ComputePass(
        "store gradients" if sink.stores else "adam",
        "optim/planes.comp",
        tuple(dict.fromkeys(needed)),
        (*owned, *sink.writes),
        {"LOCAL_SIZE": LANES, "VISIBLE_ONLY": sink.visible_only, **spec},
        {
            **_slots(sink, "splat"),
            "gradient": gradient,
            "items": "optim/items_splats.glsl",
            "list": "" if sink.stores else "optim/list_moved.glsl",
        },
        disjoint=sink.writes,
    )


def record_splats(
    recorder: Recorder, run: Mapping[str, Pipeline], sink: Sink, capacity: int, adds: bool = False
) -> None:
    """Every plane: those that the step moves, or all of them for up to `capacity` splats. adds: to
    what is there."""
    if sink.stores:
        planes = _PLANE_shN if sink.rows else quantities.plane_count("splat")
        store = run[f"store gradients{' added' * adds}"]
        recorder.run(store, groups=plane_groups(planes, capacity))
    else:
        recorder.run(run["adam"], indirect="planes")


def other_passes(sink: Sink) -> list[ComputePass]:
    """Adam for quantities of photographs, cameras and texels, a pass for each kind that has any.
    Their gradients are written by other passes.

    A step moves the photograph that it sees and no other, moments included: one that is seen once
    in hundreds of steps would drift by its momentum."""
    kinds = [kind for kind in quantities.ORDER[1:] if quantities.of(kind) and not sink.stores]
    return [_other(sink, kind) for kind in kinds]


def _other(sink: Sink, kind: Of) -> ComputePass:
    owned, before = _owned(sink, kind), quantities.ORDER[: quantities.ORDER.index(kind)]
    return ComputePass(
        f"adam {_ITEMS[kind]}",
        "optim/planes.comp",
        ("frame", *quantities.gradients(kind), *sink.reads, *owned),
        (*owned, *sink.writes),
        {
            "LOCAL_SIZE": LANES,
            "FIRST_PLANE": sum(map(quantities.plane_count, before)),
            "VISIBLE_ONLY": kind == "photograph",
            "KIND": list(_ITEMS).index(kind),
        },
        {**_slots(sink, kind), "gradient": "optim/gradient_plane.glsl"},
        disjoint=sink.writes,
    )


def record_others(recorder: Recorder, run: Mapping[str, Pipeline], items: Mapping[Of, int]) -> None:
    """A step of Adam for photographs, cameras and texels. items: how many there are of each
    kind; kinds that it lacks rest."""
    for kind in quantities.ORDER[1:]:
        if items.get(kind) and f"adam {_ITEMS[kind]}" in run:
            groups = plane_groups(quantities.plane_count(kind), items[kind])
            recorder.run(run[f"adam {_ITEMS[kind]}"], groups=groups)


def plane_groups(planes: int, items: int) -> tuple[int, int, int]:
    """Workgroups of optim/planes.comp: y is limited as x is, so the items fold into z."""
    groups = -(-items // GROUP)
    layers = max(-(-groups // contract.CONSTANTS["MAX_GROUPS_X"]), 1)
    return planes, -(-groups // layers), layers

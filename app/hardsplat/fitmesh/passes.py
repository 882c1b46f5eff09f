"""A step of the estimator as passes: two ordinary draws, a gather, two Adam passes. No derivative
of the draw, no order of fragments.

Per pixel, L(+) - L(-) is gathered over the vertices and texels that the pixel saw in either image.
Times the sign of a coordinate's perturbation over twice its size, that is an estimate of its
gradient. It is unbiased up to the square of that size (Deliot, Heitz & Belcour 2024, arXiv
2404.09758; Spall 1992).
"""

from __future__ import annotations

from collections.abc import Mapping

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.passes.declared import ComputePass, DepthTest, DrawPass, Pipeline
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.gradients import Atomics

_PERTURBED = ("frame", "mesh")


def _draw(name: str, ids: str, direction: int, width: int, height: int) -> DrawPass:
    return DrawPass(
        name=name,
        vertex="fits/mesh/mesh.vert",
        fragment="fits/mesh/ids.frag",
        reads=(*_PERTURBED, "camera", "vertices", "uvs", "corners"),
        writes=(ids, "depth"),
        attachment=ids,
        depth=DepthTest("depth", "greater", clear=0.0),  # near / depth: the nearer surface wins
        format=FORMATS["float32"].vk,
        clear=(0.0, 0.0, 0.0, 0.0),
        spec={"DIRECTION": direction & 0xFFFFFFFF, "CANVAS_WIDTH": width, "CANVAS_HEIGHT": height},
    )


def mesh_passes(atomics: Atomics, width: int, height: int) -> list[ComputePass | DrawPass]:
    """Passes on a canvas of width x height px."""

    def adam(what: str, *others: str) -> ComputePass:
        moved = (what, f"adam_{what}", "mesh_sums")
        reads = (*_PERTURBED, "adam_settings", "rates", *others, *moved)
        return ComputePass(f"adam {what}", f"fits/mesh/adam_{what}.comp", reads, moved)

    seen = (*_PERTURBED, "camera", "corners", "photos", "texels", "ids", "ids_minus")
    around = ("mesh", "vertices", "neighbours")
    return [
        ComputePass("bends", "fits/mesh/bends.comp", around, ("bends",)),
        _draw("draw plus", "ids", 1, width, height),
        _draw("draw minus", "ids_minus", -1, width, height),
        ComputePass(
            "gather",
            "fits/mesh/gather.comp",
            (*seen, "d_splats2d"),
            ("d_splats2d", "mesh_losses"),
            slots={"atomics": atomics.slot},
            bind={"d_splats2d": "mesh_sums"},  # where <atomics> adds
        ),
        adam("vertices", "neighbours", "bends"),
        adam("texels"),
        ComputePass(
            "mesh reduce",
            "fits/mesh/reduce.comp",
            ("mesh_losses", "camera", "frame"),
            ("mesh_history",),
        ),
        _draw("draw", "ids", 0, width, height),
        ComputePass("show", "fits/mesh/show.comp", (*_PERTURBED, "ids", "texels"), ("target",)),
    ]


def record_gather(
    recorder: Recorder, run: Mapping[str, Pipeline], triangles: int, width: int, height: int
) -> None:
    """vertices, texels, camera, frame, photos -> mesh_sums, mesh_losses, mesh_history[frame.step %
    HISTORY]."""
    recorder.run(run["draw plus"], threads=(3 * triangles,), extent=(width, height))
    recorder.run(run["draw minus"], threads=(3 * triangles,), extent=(width, height))
    recorder.run(run["gather"], threads=(width, height))
    recorder.run(run["mesh reduce"], threads=(1,))


def record_adam(
    recorder: Recorder, run: Mapping[str, Pipeline], vertices: int, texels: int
) -> None:
    """mesh_sums, which it leaves at 0 -> vertices, texels and their moments."""
    recorder.run(run["bends"], threads=(vertices,))
    recorder.run(run["adam vertices"], threads=(vertices,))
    recorder.run(run["adam texels"], threads=(texels,))


def record_show(
    recorder: Recorder, run: Mapping[str, Pipeline], triangles: int, width: int, height: int
) -> None:
    """vertices, texels, camera, frame -> target: colour over black, coverage in alpha."""
    recorder.run(run["draw"], threads=(3 * triangles,), extent=(width, height))
    recorder.run(run["show"], threads=(width, height))

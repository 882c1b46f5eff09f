"""Every shader module that some variant can ask for: what a wheel ships, so that its users need no
compiler."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.fit import raster as fit_raster
from hardsplat.fitmesh.passes import LOSSES as MESH_LOSSES
from hardsplat.fitmesh.passes import mesh_passes
from hardsplat.gpu import bandwidth, probe
from hardsplat.gpu.passes import shader
from hardsplat.gpu.passes.declared import ComputePass, DrawPass
from hardsplat.raster.core.projection import Perspective, Projection
from hardsplat.raster.core.sinks import STORE, STORE_ROWS, adam
from hardsplat.raster.core.sky import behind_pass
from hardsplat.raster.core.sort import sort_passes
from hardsplat.raster.core.stochastic import Perturbed
from hardsplat.raster.hardware import rasterizer as hardware
from hardsplat.raster.hardware.rows import Rows
from hardsplat.raster.pictures import FIT_SCREEN_PASS, TENSOR_PASSES, show_pass
from hardsplat.raster.tiled import rasterizer as tiled
from hardsplat.raster.tiled.lists import sorted_lists
from hardsplat.raster.tiled.rows import TiledRows
from hardsplat.settings.train import TrainConfig
from hardsplat.step.begin import FIT_SCHEDULE_PASSES, SCHEDULE_PASSES
from hardsplat.step.loss import FITTED_PASSES, METRIC_PASSES, SQUARED_PASSES, loss_passes
from hardsplat.step.photos import fetch_pass
from hardsplat.tables.fits import FIT_RASTERS
from hardsplat.tables.formats import FORMATS, MOMENT_FORMATS
from hardsplat.tables.hardware import BLENDINGS, BLOCKS, ORDERINGS, QUADS, SHAPES
from hardsplat.tables.photographs import LENSES
from hardsplat.tables.pictures import PICTURES
from hardsplat.tables.reductions import ATOMICS, REDUCTIONS
from hardsplat.tables.tiles import TILE_BACKWARDS
from hardsplat.train import FEATURES, STRATEGIES, Averaging, resort_passes, variants
from hardsplat.view.gui.canvas import GUI_PASS


def passes() -> Iterator[ComputePass | DrawPass]:
    """A pass of every kind, with sizes and constants as they come: modules do not depend on
    those."""
    yield from (*probe.PASSES, bandwidth.COPY, GUI_PASS, FIT_SCREEN_PASS, *TENSOR_PASSES)
    sinks = [
        STORE,
        *(
            adam(moments, grows=grows, cameras=cameras)
            for moments in MOMENT_FORMATS
            for grows in (True, False)
            for cameras in (True, False)
        ),
    ]
    sinks += [
        adam(grows=grows, cameras=cameras, depths=True)
        for grows in (True, False)
        for cameras in (True, False)
    ]
    for picture in PICTURES:
        yield from (
            *(
                p
                for lens in LENSES
                for p in Perspective(1, None, lens=lens).passes(picture=picture)
            ),
            show_pass(picture),
        )
    projections: list[Projection] = [
        kind(1, sink, lens=lens)
        for sink in sinks
        for kind in (Perspective, Perturbed)
        for lens in LENSES
    ]
    packed = [adam(moments, packed=True) for moments in MOMENT_FORMATS]
    projections += [Perspective(1, sink, lens=lens) for sink in packed for lens in LENSES]
    projections.append(Perspective(1, STORE_ROWS))
    projections += [fit_raster.Flat(sink) for sink in (fit_raster.STORE, fit_raster.ADAM)]
    for projection in projections:
        yield from projection.passes({})
    for lanes in (8, 32):
        yield from (*sort_passes(lanes=lanes), *sorted_lists(1, lanes))
    analytic, perturbed = Perspective(1, STORE), Perturbed(1, STORE)
    yield from _hardware(analytic, perturbed)
    yield from _tiled(analytic, perturbed)
    walks = [
        (row, TILE_BACKWARDS[name])
        for row in FIT_RASTERS.values()
        if row.walk
        for name in row.reductions
    ]
    for (row, backward), atomics in itertools.product(walks, ATOMICS.values()):
        yield from fit_raster.walk_passes(row, backward, atomics, 1, 1, lanes=32, pixels=32)
    yield from (
        *variants(loss_passes()),
        *loss_passes(differences=True),
        *SQUARED_PASSES,
        *METRIC_PASSES,
        *FITTED_PASSES,
        *FIT_SCHEDULE_PASSES,
    )
    yield from variants(SCHEDULE_PASSES)
    yield from map(behind_pass, LENSES)
    yield from (p for feature in FEATURES for parts in feature.every() for p in parts.passes)
    for moments, strategy in itertools.product(MOMENT_FORMATS, STRATEGIES.values()):
        yield from (
            *variants(strategy.passes(moments, photo_bytes=4)),
            *resort_passes(moments, strategy.follows),
        )
    yield fetch_pass(4)
    config = TrainConfig()
    nothing = STRATEGIES["none"](config.densify, config.run.max_steps)
    yield from Averaging(config.adam.average_steps, nothing).passes()
    for atomics, loss in itertools.product(ATOMICS.values(), MESH_LOSSES):
        yield from mesh_passes(atomics, loss, 1, 1)


def _hardware(analytic: Perspective, perturbed: Perturbed) -> Iterator[ComputePass | DrawPass]:
    """Draws, by what they depend on: those forward by format, blending, ordering and picture, those
    backward by all rows, and whatever stands before the fragments by shape."""
    forward = [
        (f, b, o)
        for f, b, o in itertools.product(FORMATS.values(), BLENDINGS.values(), ORDERINGS.values())
        if b.goes_with(o)
    ]
    backward = list(
        itertools.product(REDUCTIONS.values(), ATOMICS.values(), QUADS.values(), BLOCKS.values())
    )
    for (format, blending, ordering), (reduction, atomics, quads, block) in itertools.product(
        forward, backward
    ):
        rows = Rows(format, format, blending, reduction, ordering, atomics, quads, block)
        yield from hardware.all_passes(analytic, rows, 1, 1, segments=2)
    for (format, blending, ordering), picture in itertools.product(forward, PICTURES):
        yield from hardware.all_passes(
            Perspective(1, None),
            replace(rows, format=format, blending=blending, ordering=ordering),
            1,
            1,
            1,
            picture,
        )
    rows = replace(rows, blending=BLENDINGS["fixed"], ordering=ORDERINGS["interlock"])
    yield from hardware.all_passes(perturbed, rows, 1, 1, 1)
    for shape, (format, blending, ordering) in itertools.product(SHAPES.values(), forward):
        yield from hardware.all_passes(
            analytic,
            replace(rows, shape=shape, format=format, blending=blending, ordering=ordering),
            1,
            1,
            1,
        )


def _tiled(analytic: Perspective, perturbed: Perturbed) -> Iterator[ComputePass]:
    for backward, atomics in itertools.product(TILE_BACKWARDS.values(), ATOMICS.values()):
        rows = TiledRows(backward, atomics)
        yield from tiled.all_passes(analytic, rows, 1, 1, lanes=32)
        yield from tiled.all_passes(replace(analytic, in_order=False), rows, 1, 1, lanes=32)
        yield from tiled.all_passes(Perspective(1, adam(depths=True)), rows, 1, 1, lanes=32)
        yield from tiled.all_passes(Perspective(1, STORE_ROWS), rows, 1, 1, lanes=32)
    checkpointed = replace(
        rows, tile_backward=next(row for row in TILE_BACKWARDS.values() if row.bucket)
    )
    for picture in PICTURES:
        yield from tiled.all_passes(Perspective(1, None), rows, 1, 1, 32, picture)
        yield from tiled.all_passes(analytic, checkpointed, 1, 1, 32, picture)
    yield from tiled.all_passes(perturbed, rows, 1, 1, 32)


def sources() -> Iterator[shader.ShaderSource]:
    for owner in passes():
        yield from owner.sources()


def compile_all(folder: Path) -> int:
    """Compiles every module into `folder` under its key; returns how many there are."""
    folder.mkdir(parents=True, exist_ok=True)

    def one(source: shader.ShaderSource) -> None:
        (folder / f"{shader.key(source)}.spv").write_bytes(shader.compile_source(source))

    modules = set(sources())
    with ThreadPoolExecutor() as pool:
        list(pool.map(one, modules))
    return len(modules)


if __name__ == "__main__":
    import sys

    try:
        print(f"{compile_all(Path(sys.argv[1]))} modules in {sys.argv[1]}")
    except (UserError, shader.ShaderError) as error:
        sys.exit(f"hardsplat: error: {error}")

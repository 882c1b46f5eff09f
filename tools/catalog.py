"""Every shader module that some variant can ask for: what a wheel ships, so that its users need no
compiler."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.fit import raster as fit_raster
from hardsplat.fitmesh.passes import mesh_passes
from hardsplat.gpu import probe
from hardsplat.gpu.passes import shader
from hardsplat.gpu.passes.declared import ComputePass, DrawPass
from hardsplat.raster.core.projection import Perspective
from hardsplat.raster.core.sinks import STORE, STORE_ROWS, adam
from hardsplat.raster.core.sort import sort_passes
from hardsplat.raster.core.stochastic import Perturbed
from hardsplat.raster.hardware import rasterizer as hardware
from hardsplat.raster.hardware.rows import Rows
from hardsplat.raster.pictures import FIT_SCREEN_PASS, TENSOR_PASSES, show_pass
from hardsplat.raster.shares import SHARE_PASSES
from hardsplat.raster.tiled import rasterizer as tiled
from hardsplat.raster.tiled.lists import sorted_lists
from hardsplat.raster.tiled.rows import TiledRows
from hardsplat.settings.train import TrainConfig
from hardsplat.step.begin import FIT_SCHEDULE_PASSES, SCHEDULE_PASSES
from hardsplat.step.loss import FITTED_PASSES, METRIC_PASSES, SQUARED_PASSES, loss_passes
from hardsplat.step.photos import fetch_pass
from hardsplat.tables.fits import FIT_RASTERS
from hardsplat.tables.formats import FORMATS, MOMENT_FORMATS
from hardsplat.tables.gradients import ATOMICS, REDUCTIONS, TILE_BACKWARDS
from hardsplat.tables.hardware import BLENDINGS, BLOCKS, ORDERINGS, QUADS, SHAPES
from hardsplat.tables.photographs import LENSES
from hardsplat.tables.pictures import PICTURES
from hardsplat.train import FEATURES, STRATEGIES, Averaging, resort_passes, variants
from hardsplat.view.gui.canvas import GUI_PASS

BOTH = (True, False)


def passes() -> Iterator[ComputePass | DrawPass]:
    """A pass of every kind, with sizes and constants as they come: modules do not depend on
    those."""
    yield from (*probe.PASSES, GUI_PASS, FIT_SCREEN_PASS, *TENSOR_PASSES, *SHARE_PASSES)
    yield from _projections()
    analytic, perturbed = Perspective(1, STORE), Perturbed(1, STORE)
    yield from _hardware(analytic, perturbed)
    yield from _tiled(analytic, perturbed)
    for row, atomics in product(FIT_RASTERS.values(), ATOMICS.values()):
        for name in row.reductions if row.walk else ():
            backward = TILE_BACKWARDS[name]
            yield from fit_raster.walk_passes(row, backward, atomics, 1, 1, lanes=32, pixels=32)
    for lanes in (8, 32):
        yield from (*sort_passes(lanes=lanes), *sorted_lists(1, lanes))
    yield from (*variants(loss_passes()), *loss_passes(differences=True))
    yield from (*SQUARED_PASSES, *METRIC_PASSES, *FITTED_PASSES)
    yield from (*FIT_SCHEDULE_PASSES, *variants(SCHEDULE_PASSES), fetch_pass(4))
    yield from (p for feature in FEATURES for parts in feature.every() for p in parts.passes)
    for moments, strategy in product(MOMENT_FORMATS, STRATEGIES.values()):
        yield from variants(strategy.passes(moments, photo_bytes=4))
        yield from resort_passes(moments, strategy.statistics)
    config = TrainConfig()
    nothing = STRATEGIES["none"](config.densify, config.run.max_steps)
    yield from Averaging(config.adam.average_steps, nothing).passes()
    for atomics in ATOMICS.values():
        yield from mesh_passes(atomics, 1, 1)


def _projections() -> Iterator[ComputePass | DrawPass]:
    """Projections by lens and picture, or by what their gradients become."""
    for lens, picture in product(LENSES, PICTURES):
        yield from Perspective(1, None, lens=lens).passes(picture=picture)
    yield from map(show_pass, PICTURES)
    sinks = [STORE]
    for grows, cameras in product(BOTH, BOTH):
        sinks += [adam(moments, grows=grows, cameras=cameras) for moments in MOMENT_FORMATS]
        sinks.append(adam(grows=grows, cameras=cameras, depths=True))
    for kind, sink, lens in product((Perspective, Perturbed), sinks, LENSES):
        yield from kind(1, sink, lens=lens).passes({})
    for moments, lens in product(MOMENT_FORMATS, LENSES):
        yield from Perspective(1, adam(moments, packed=True), lens=lens).passes({})
    yield from Perspective(1, STORE_ROWS).passes({})
    for sink in (fit_raster.STORE, fit_raster.ADAM):
        yield from fit_raster.Flat(sink).passes({})


def _hardware(analytic: Perspective, perturbed: Perturbed) -> Iterator[ComputePass | DrawPass]:
    """Draws, by what they depend on: those forward by format, blending, ordering and picture, those
    backward by all rows, and whatever stands before the fragments by shape."""
    tables = FORMATS, BLENDINGS, ORDERINGS, REDUCTIONS, ATOMICS, QUADS, BLOCKS
    for format, blending, ordering, *backward in product(*(table.values() for table in tables)):
        if not blending.goes_with(ordering):
            continue
        reduction, atomics, quads, block = backward
        rows = Rows(format, format, blending, reduction, ordering, atomics, quads, block)
        yield from hardware.all_passes(analytic, rows, 1, 1, segments=2)
        if backward == [next(iter(table.values())) for table in tables[3:]]:  # the first of each
            for picture in PICTURES:
                yield from hardware.all_passes(Perspective(1, None), rows, 1, 1, 1, picture)
            for shape in SHAPES.values():
                yield from hardware.all_passes(analytic, replace(rows, shape=shape), 1, 1, 1)
    rows = replace(rows, blending=BLENDINGS["fixed"], ordering=ORDERINGS["interlock"])
    yield from hardware.all_passes(perturbed, rows, 1, 1, 1)


def _tiled(analytic: Perspective, perturbed: Perturbed) -> Iterator[ComputePass]:
    in_any_order = replace(analytic, in_order=False)
    others = Perspective(1, adam(depths=True)), Perspective(1, STORE_ROWS)
    for backward, atomics in product(TILE_BACKWARDS.values(), ATOMICS.values()):
        rows = TiledRows(backward, atomics)
        for projection in (analytic, in_any_order, *others):
            yield from tiled.all_passes(projection, rows, 1, 1, lanes=32)
    buckets = next(row for row in TILE_BACKWARDS.values() if row.bucket)
    for picture in PICTURES:
        yield from tiled.all_passes(Perspective(1, None), rows, 1, 1, 32, picture)
        checkpointed = replace(rows, tile_backward=buckets)
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

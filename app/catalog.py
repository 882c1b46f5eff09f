"""Every shader module that some variant can ask for: what a wheel ships, so that its users need no compiler."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from app.errors import UserError
from app.fit.raster import SINKS as FIT_SINKS
from app.fit.raster import Flat, walk_passes
from app.gpu import bandwidth, probe, shader
from app.mesh.passes import mesh_passes
from app.raster import draws, hardware, tiled
from app.raster.base import SINKS
from app.raster.show import FIT_SCREEN_PASS, SCREEN_PASS, show_pass
from app.train.densify import DENSIFY_PASSES, RESET_PASSES
from app.train.loss import LOSS_PASSES, METRIC_PASSES, SQUARED_PASSES
from app.train.mcmc import MCMC_PASSES
from app.train.schedule import SCHEDULE_PASSES
from app.variants.atomics import ATOMICS
from app.variants.blending import BLENDINGS
from app.variants.blocks import BLOCKS
from app.variants.fit_rasters import FIT_RASTERS
from app.variants.formats import FORMATS
from app.variants.moments import MOMENT_FORMATS
from app.variants.ordering import ORDERINGS
from app.variants.pictures import PICTURES
from app.variants.quads import QUADS
from app.variants.reductions import REDUCTIONS
from app.variants.shapes import SHAPES
from app.variants.tile_backwards import TILE_BACKWARDS


def sources() -> Iterator[shader.Source]:
    registries = (FORMATS, BLENDINGS, REDUCTIONS, ORDERINGS, ATOMICS, QUADS, BLOCKS)
    for format, blending, reduction, ordering, atomics, quads, block in itertools.product(*(r.values() for r in registries)):
        rows = hardware.Rows(format, format, blending, reduction, ordering, atomics, quads, block)
        for sink in SINKS:
            for p in draws.passes(rows, 1, 1, 1, sink, segments=2):
                yield from p.sources()
    for format, blending, ordering, picture in itertools.product(FORMATS.values(), BLENDINGS.values(), ORDERINGS.values(), PICTURES):
        for p in draws.passes(replace(rows, format=format, blending=blending, ordering=ordering), 1, 1, 1, None, picture=picture):
            yield from p.sources()
    for shape in SHAPES.values():  # whatever the fragments do
        for p in draws.passes(replace(rows, shape=shape), 1, 1, 1, sink):
            yield from p.sources()
    for backward, atomics, sink in itertools.product(TILE_BACKWARDS.values(), ATOMICS.values(), SINKS):
        for p in tiled.passes(tiled.TiledRows(backward, atomics), 1, 1, 1, sink, lanes=32):
            yield from p.sources()
    for picture in PICTURES:
        for p in (*tiled.passes(tiled.TiledRows(backward, atomics), 1, 1, 1, None, 32, picture=picture), show_pass(picture)):
            yield from p.sources()
    walks = [(row, TILE_BACKWARDS[name]) for row in FIT_RASTERS.values() if row.walk for name in row.reductions]
    for (row, backward), atomics in itertools.product(walks, ATOMICS.values()):
        for p in walk_passes(row, backward, atomics, 1, 1, lanes=32, pixels=32):
            yield from p.sources()
    for sink in FIT_SINKS:
        for p in Flat(sink).passes():
            yield from p.sources()
    refining = [p for m in MOMENT_FORMATS for p in (*DENSIFY_PASSES(1, m), *RESET_PASSES(m), *MCMC_PASSES(1, m))]
    training = (*LOSS_PASSES, *SQUARED_PASSES, *METRIC_PASSES, *SCHEDULE_PASSES, *refining)
    meshes = [p for atomics in ATOMICS.values() for p in mesh_passes(atomics, "l2", 1, 1)]
    for p in (*probe.PASSES, bandwidth.COPY, SCREEN_PASS, FIT_SCREEN_PASS, *training, *meshes):
        yield from p.sources()


def compile_all(folder: Path) -> int:
    """Compiles every module into `folder` under its key; returns how many there are."""
    folder.mkdir(parents=True, exist_ok=True)

    def one(source: shader.Source) -> None:
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

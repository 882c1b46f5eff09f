"""Pipelines of a training that are built by threads while photographs are read and while the first
steps are made, so that no step waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes.pipelines import begin_all
from hardsplat.raster.backends import BACKENDS
from hardsplat.raster.core.sinks import moments_of
from hardsplat.settings.train import TrainConfig
from hardsplat.train.session.drawing import sink_of
from hardsplat.train.step.capture import Capture
from hardsplat.train.step.loss import METRIC_PASSES
from hardsplat.train.step.step import step_passes
from hardsplat.train.strategies import STRATEGIES

# of a pixel, as long as no photograph has alpha; the passes of another number are built when they
# are asked for
PHOTO_BYTES = 3


def build_ahead(
    device: Device,
    config: TrainConfig,
    names: Sequence[str],
    canvas: tuple[int, int],
    extent: float,
    lens: str = "pinhole",
    cameras: int = 1,
) -> None:
    """Begins with what a session of these settings builds, for each rasterizer of `names` in turn,
    and what measures it. canvas: its width and height.

    extent: of the scene, world units. lens: a variant of LENSES. cameras: how many took the
    photographs. Nothing is lost where it builds other passes: it builds those itself. Raises
    UserError for what the device cannot run.
    """
    c = config.changed(moments=moments_of(device, config.adam.moments))
    for name in names:
        backend = BACKENDS[name]
        options = replace(backend.options.of(c.changed(rasterizer=name)), lens=lens)
        if len(names) == 1 and backend.first(device, options) != options:
            continue  # the session will time what is left open, which takes the device
        options = backend.first(device, options)
        begin_all(
            device,
            backend.passes(
                device,
                (c.model.sh_degree + 1) ** 2,
                *canvas,
                options,
                sink_of(c, bool(c.depth.depth_lambda)),
            ),
        )
        if name == names[0]:
            capture = Capture(c, {"photograph": 1, "camera": cameras, "scene": 1}, extent)
            begin_all(device, step_passes(c, capture, STRATEGIES[c.densify.strategy], PHOTO_BYTES))
    begin_all(device, METRIC_PASSES)

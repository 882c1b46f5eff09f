"""One view of splats as a function that PyTorch differentiates."""

from __future__ import annotations

import torch

from hardsplat.torch.engine import Engine, RecordedFrame, SplatTensors


class RasterizeFunction(torch.autograd.Function):
    """(means, quats, scales, opacities, sh) -> image (H, W, 3) without background, transmittance
    (H, W). See SplatTensors and RecordedFrame."""

    @staticmethod
    def forward(ctx, means, quats, scales, opacities, sh, engine: Engine, frame: RecordedFrame):
        splats = SplatTensors(*(t.detach() for t in (means, quats, scales, opacities, sh)))
        ctx.save_for_backward(means, quats, scales, opacities, sh)
        ctx.engine, ctx.frame = engine, frame
        ctx.set_materialize_grads(False)
        return tuple(t.to(means.device) for t in engine.draw(splats, frame))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_image, d_T):
        splats = SplatTensors(*(t.detach() for t in ctx.saved_tensors))
        if d_image is None and d_T is None:
            return (None,) * 7
        return *ctx.engine.gradients(splats, ctx.frame, d_image, d_T), None, None

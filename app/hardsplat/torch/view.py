"""Views of splats as a function that PyTorch differentiates."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hardsplat.torch.engine import Engine
from hardsplat.torch.slot import Shot


class RasterizeFunction(torch.autograd.Function):
    """(means, quats, scales, opacities, colors...) -> images (S, H, W, 3) without background,
    transmittance (S, H, W), of shots of them. shown: which of the colours each shot shows."""

    @staticmethod
    def forward(ctx, engine: Engine, shots: Sequence[Shot], shown: Sequence[int], *tensors):
        kept = any(ctx.needs_input_grad)
        found = engine.draw(shots, kept)
        if kept:
            ctx.save_for_backward(*tensors)
            ctx.given = engine, shots, shown
        ctx.set_materialize_grads(False)
        return tuple(each.to(tensors[0].device) for each in found)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_images, d_Ts):
        tensors = ctx.saved_tensors  # PyTorch raises here for one that was changed in place
        engine, shots, shown = ctx.given
        if d_images is None and d_Ts is None:
            return None, None, None, *[None] * len(tensors)
        found = engine.gradients(shots, shown, [t.shape for t in tensors], d_images, d_Ts)
        return None, None, None, *(gradient.to(tensors[0].device) for gradient in found)

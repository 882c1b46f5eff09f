"""One view of splats as a function that PyTorch differentiates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from hardsplat.model.gaussians import SH_C0
from hardsplat.torch.engine import Engine, RecordedFrame, SplatTensors


class RasterizeFunction(torch.autograd.Function):
    """(means, quats, scales, opacities, sh, background or None) -> image (H, W, 3) over its
    background, transmittance (H, W). See SplatTensors and RecordedFrame."""

    @staticmethod
    def forward(
        ctx, means, quats, scales, opacities, sh, background, engine: Engine, frame: RecordedFrame
    ):
        splats = SplatTensors(*(t.detach() for t in (means, quats, scales, opacities, sh)))
        image, T = (t.to(means.device) for t in engine.draw(splats, frame))
        ctx.save_for_backward(means, quats, scales, opacities, sh, T)
        ctx.engine, ctx.frame = engine, frame
        ctx.set_materialize_grads(False)
        return (image if background is None else image + T[..., None] * background), T

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_image, d_T):
        means, quats, scales, opacities, sh, T = ctx.saved_tensors
        engine, frame = ctx.engine, ctx.frame
        splats = SplatTensors(*(t.detach() for t in (means, quats, scales, opacities, sh)))
        total: list[torch.Tensor | None] = [None] * 5
        d_background = None
        if d_image is not None:
            if any(ctx.needs_input_grad[:5]):
                total = list(engine.gradients(splats, frame, d_image))
            if ctx.needs_input_grad[5]:
                d_background = (d_image * T[..., None]).sum((0, 1))
        if d_T is not None and any(ctx.needs_input_grad[:4]):  # T = 1 - the image of white splats
            color = torch.full((len(means), 1, 3), 0.5 / SH_C0, device=means.device)
            white = replace(splats, sh=color)
            d_white = torch.zeros((*d_T.shape, 3), device=d_T.device)
            d_white[..., 0] = -d_T
            plain = replace(frame, sh_degree=0, background=np.zeros(3, np.float32))
            of_T = engine.gradients(white, plain, d_white)
            total = [b if a is None else a + b for a, b in zip(total[:4], of_T)] + total[4:]
        return *total, d_background, None, None

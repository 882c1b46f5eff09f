"""`rasterization` as gsplat has it (Ye et al., "gsplat: An Open-Source Library for Gaussian
Splatting", JMLR 2025), for what hardsplat draws."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import SH_C0
from hardsplat.torch.arguments import check_offered, check_shapes
from hardsplat.torch.engine import Call, Engine, RecordedFrame, SplatTensors
from hardsplat.torch.engines import engine_for
from hardsplat.torch.view import RasterizeFunction

MODES = ("RGB", "D", "ED", "RGB+D", "RGB+ED")


class Meta(dict):
    """What is known of a call: width, height, n_cameras. Other keys of gsplat raise KeyError."""

    def __missing__(self, name):
        raise KeyError(f"{name}: hardsplat.torch does not offer it; there are {', '.join(self)}")


def rasterization(
    means: Tensor,
    quats: Tensor,
    scales: Tensor,
    opacities: Tensor,
    colors: Tensor,
    viewmats: Tensor,
    Ks: Tensor,
    width: int,
    height: int,
    near_plane: float = 0.01,
    far_plane: float = 1e10,
    radius_clip: float = 0.0,
    eps2d: float = 0.3,
    sh_degree: int | None = None,
    packed: bool = True,
    tile_size: int = 16,
    backgrounds: Tensor | None = None,
    render_mode: Literal["RGB", "D", "ED", "RGB+D", "RGB+ED"] = "RGB",
    sparse_grad: bool = False,
    absgrad: bool = False,
    rasterize_mode: Literal["classic", "antialiased"] = "classic",
    channel_chunk: int = 32,
    **others,
) -> tuple[Tensor, Tensor, Meta]:
    """Renders N splats from C cameras; gradients flow back to everything but the cameras.

    - means: (N, 3) world units. quats: (N, 4) wxyz, need not be normalized.
    - scales: (N, 3) linear. opacities: (N,) in 0..1.
    - colors: (N, D) or (C, N, D) as they are shown, D >= 1; every three take a pass. With sh_degree
      (N, K, 3) coefficients of spherical harmonics, K = 1, 4, 9 or 16, at least (sh_degree + 1)^2.
    - viewmats: (C, 4, 4) world to camera, OpenCV: +x right, +y down, +z forward.
    - Ks: (C, 3, 3) in pixels, without skew. backgrounds: (C, D).
    - near_plane: splats nearer than this are culled, world units.
    - render_mode: D is the sum of weights times depth along the camera's axis, ED that over the sum
      of weights; each takes another pass.
    - rasterize_mode: antialiased multiplies opacities by the compensation of the dilation (Yu et
      al. 2024).
    - packed, tile_size, channel_chunk and segmented have no effect on results, there nor here.

    Returns colors (C, H, W, D or 1 or D + 1), the depth last, alphas (C, H, W, 1) and what is known
    of the call; float32, on the tensors' device.

    Unlike gsplat's: alpha is clamped at 0.99, not 0.999; meta has no means2d, so that gsplat's
    densification strategies find nothing to go by. Raises NotImplementedError, with its name, for
    what is not offered; ValueError for tensors of another shape; UserError where the device cannot
    do it.
    """
    fixed: dict = dict(far_plane=far_plane, radius_clip=radius_clip, eps2d=eps2d)
    check_offered({**fixed, "sparse_grad": sparse_grad, "absgrad": absgrad, **others})
    if render_mode not in MODES:
        raise ValueError(f"render_mode {render_mode!r} is not one of {', '.join(MODES)}")
    if rasterize_mode not in ("classic", "antialiased"):
        raise ValueError(f"rasterize_mode {rasterize_mode!r} is not one of classic, antialiased")
    if not 0 < near_plane < np.inf:
        raise ValueError(f"near_plane {near_plane} is not a positive distance")
    splats = dict(means=means, quats=quats, scales=scales, opacities=opacities, colors=colors)
    behind_all = {} if backgrounds is None else {"backgrounds": backgrounds}
    check_shapes({**splats, "viewmats": viewmats, "Ks": Ks, **behind_all}, sh_degree)
    means, quats, scales, opacities, colors = (t.float() for t in splats.values())
    engine = engine_for(means.device, rasterize_mode == "antialiased")
    call = Call()
    coming = _Coming([viewmats, Ks])
    # the GPU has something to do while the host waits for cameras and checks them
    if sh_degree is not None and coming.wait:
        detached = (t.detach() for t in (means, quats, scales, opacities, colors))
        engine.give(SplatTensors(*detached), width, height, call)
    w2cs, matrices = coming.arrays()
    cameras = [_camera(w2c.tobytes(), K.tobytes(), width, height) for w2c, K in zip(w2cs, matrices)]
    meta = Meta(width=width, height=height, n_cameras=len(cameras))

    def drawn(c: int, camera: Camera) -> tuple[Tensor, Tensor]:
        own = colors[c] if sh_degree is None and colors.ndim == 3 else colors
        behind = None if backgrounds is None else backgrounds[c].float()
        view = _OneView(engine, camera, near_plane, call, (means, quats, scales, opacities))
        return view.render(own, sh_degree, behind, render_mode)

    while True:
        images, alphas = zip(*map(drawn, range(len(cameras)), cameras))
        found = _stacked(images), _stacked(alphas), meta
        if engine.confirm(call):  # late: the device draws while the host does all this
            return found


@lru_cache(4096, typed=True)
def _camera(w2c: bytes, K: bytes, width: int, height: int) -> Camera:
    """The camera of float64 matrices, which training shows repeatedly: checking them takes longer
    than all else that a camera needs."""
    matrices = np.frombuffer(w2c).reshape(4, 4).copy(), np.frombuffer(K).reshape(3, 3).copy()
    return Camera(*matrices, width, height)


def _stacked(images: tuple[Tensor, ...]) -> Tensor:
    return images[0][None] if len(images) == 1 else torch.stack(images)


class _Coming:
    """Values of tensors on their way to the host, in one transfer for all that are on GPUs."""

    def __init__(self, tensors: list[Tensor]):
        here = {i: t.detach() for i, t in enumerate(tensors) if t.device.type != "cuda"}
        self._here = {i: t.cpu().double().numpy() for i, t in here.items()}
        self._shapes = {i: t.shape for i, t in enumerate(tensors) if i not in self._here}
        self._done = None
        self.wait = len(self._shapes) > 0  # that there is something to wait for
        if away := [tensors[i].detach().double().reshape(-1) for i in self._shapes]:
            flat = torch.cat([t.to(away[0].device) for t in away])
            pinned = torch.empty(flat.shape, dtype=flat.dtype, pin_memory=True)
            self._flat = pinned.copy_(flat, non_blocking=True)
            self._done = torch.cuda.current_stream(flat.device).record_event()

    def arrays(self) -> list[Any]:
        """float64; waits for them."""
        if self._done is not None:
            self._done.synchronize()
            ends = np.cumsum([shape.numel() for shape in self._shapes.values()])
            parts = np.split(self._flat.numpy().copy(), ends[:-1])
            for part, (i, shape) in zip(parts, self._shapes.items()):
                self._here[i] = part.reshape(shape)
        return [self._here[i] for i in sorted(self._here)]


class _OneView(NamedTuple):
    """Splats from one camera; channels go through the engine by threes. splats: means, quats,
    scales, opacities."""

    engine: Engine
    camera: Camera
    near: float
    call: Call
    splats: tuple[Tensor, Tensor, Tensor, Tensor]

    def render(
        self, colors: Tensor, sh_degree: int | None, background: Tensor | None, mode: str
    ) -> tuple[Tensor, Tensor]:
        """(H, W, channels) of the mode, alpha (H, W, 1). background: (D,) of the colours."""
        found: list[Tensor] = []
        T: Any = None
        if "RGB" in mode:
            if sh_degree is None:
                image, T = self._channels(colors)
            else:
                image, T = self._pass(colors, sh_degree)
            found.append(image if background is None else image + T[..., None] * background)
        if "D" in mode.replace("RGB", ""):
            image, behind = self._channels(self._depths())
            depth, weight = image[..., :1], image[..., 1:]
            found.append(depth / weight.clamp(min=1e-10) if "ED" in mode else depth)
            T = behind if T is None else T
        return (found[0] if len(found) == 1 else torch.cat(found, dim=2)), (1 - T)[..., None]

    def _depths(self) -> Tensor:
        """(N, 2): depth along the axis of the camera, and 1. Depths of splats that are culled are
        no less than the near plane."""
        z_axis = torch.from_numpy(self.camera.w2c[2]).to(self.splats[0])
        depths = (self.splats[0] @ z_axis[:3] + z_axis[3]).clamp(min=self.near)
        return torch.stack([depths, torch.ones_like(depths)], dim=1)

    def _channels(self, colors: Tensor) -> tuple[Tensor, Tensor]:
        """Colours (N, D) as they are -> (H, W, D), T. The engine clamps colours at 0, so those that
        are not above it are shifted: sum w (c + s) - s sum w = sum w c."""
        own = colors.detach()
        known = torch.where(own.isfinite(), own, 1.0)  # of others nothing is drawn
        least = known.amin() if colors.numel() else torch.ones((), device=colors.device)
        shift = torch.where(least > 0, torch.zeros_like(least), 1 - least)
        images: list[Tensor] = []
        Ts: list[Tensor] = []
        for part in (colors + shift).split(3, dim=1):
            padded = pad(part, (0, 3 - part.shape[1]), value=0.5)
            image, T = self._pass(((padded - 0.5) / SH_C0)[:, None], 0)
            images.append(image[..., : part.shape[1]])
            Ts.append(T)
        return torch.cat(images, dim=2) - shift * (1 - Ts[0])[..., None], Ts[0]

    def _pass(self, sh: Tensor, sh_degree: int) -> tuple[Tensor, Tensor]:
        frame = RecordedFrame(self.camera, sh_degree, self.near, self.call)
        return RasterizeFunction.apply(*self.splats, sh, self.engine, frame)

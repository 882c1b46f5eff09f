"""`rasterization` as gsplat has it (Ye et al., "gsplat: An Open-Source Library for Gaussian
Splatting", JMLR 2025), for what hardsplat draws."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from threading import Lock
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from hardsplat.base.errors import UserError
from hardsplat.model.gaussians import SH_C0
from hardsplat.raster.core.frame import frame_data
from hardsplat.torch.cameras import CameraTensors
from hardsplat.torch.engines import Engine, engine_for
from hardsplat.torch.slot import SplatView

# what gsplat can do otherwise, and the one value that is offered here
_FIXED: dict[str, Any] = {
    **dict(far_plane=1e10, radius_clip=0.0, eps2d=0.3, camera_model="pinhole"),
    **dict.fromkeys("sparse_grad absgrad distributed with_ut with_eval3d".split(), False),
    **dict.fromkeys("covars viewmats_rs rolling_shutter radial_coeffs".split()),
    **dict.fromkeys("tangential_coeffs thin_prism_coeffs ftheta_coeffs".split()),
}
_WITHOUT_EFFECT = ("packed", "tile_size", "channel_chunk", "segmented")  # how gsplat works


def check_offered(asked: dict) -> None:
    """Raises TypeError for an argument that gsplat has not, NotImplementedError for a value that is
    not offered."""
    for name, value in asked.items():
        if name in _WITHOUT_EFFECT:
            continue
        if name not in _FIXED:
            raise TypeError(f"rasterization() has no argument {name}")
        usual = name == "rolling_shutter" and getattr(value, "name", "") == "GLOBAL"
        if isinstance(value, Tensor) or (value != _FIXED[name] and not usual):
            raise NotImplementedError(f"{name}: hardsplat.torch offers only {_FIXED[name]!r}")


def check_shapes(tensors: dict[str, Tensor], sh_degree: int | None) -> None:
    """Checks arguments by name. Raises ValueError, NotImplementedError or UserError."""
    for name, t in tensors.items():
        if not isinstance(t, Tensor):
            raise ValueError(f"{name} is a {type(t).__name__}, expected a tensor")
        if not t.is_floating_point():
            raise ValueError(f"{name} has dtype {t.dtype}, expected float32")
    shapes = {name: tuple(t.shape) for name, t in tensors.items()}
    if len(shapes["means"]) > 2:
        missing = "does not offer several scenes in a call; means are (N, 3)"
        raise NotImplementedError(f"means {shapes['means']}: hardsplat.torch {missing}")
    n, c = (shapes[name][0] if shapes[name] else -1 for name in ("means", "viewmats"))
    splats = dict(means=(n, 3), quats=(n, 4), scales=(n, 3), opacities=(n,))
    for name, shape in {**splats, "viewmats": (c, 4, 4), "Ks": (c, 3, 3)}.items():
        if shapes[name] != shape:
            raise ValueError(f"{name} has shape {shapes[name]}, expected {shape}")
    if c == 0:
        raise ValueError("viewmats has shape (0, 4, 4): there is no camera to draw from")
    colors = shapes["colors"]
    if sh_degree is None:
        if len(colors) < 2 or colors[:-1] not in ((n,), (c, n)) or colors[-1] < 1:
            expected = f"({n}, D) or ({c}, {n}, D); with sh_degree ({n}, K, 3)"
            raise ValueError(f"colors has shape {colors}, expected {expected}")
    elif sh_degree not in range(4):
        raise ValueError(f"sh_degree {sh_degree} is not in 0..3")
    elif len(colors) == 4:
        missing = "does not offer spherical harmonics that differ by camera"
        raise NotImplementedError(f"colors of four dimensions: hardsplat.torch {missing}")
    else:
        least = (sh_degree + 1) ** 2
        if colors not in [(n, k, 3) for k in (1, 4, 9, 16) if k >= least]:
            expected = f"({n}, 1|4|9|16, 3) of at least {least} coefficients"
            what = f"colors has shape {colors}, expected {expected} with sh_degree {sh_degree}"
            raise ValueError(what)
    channels = 3 if sh_degree is not None else colors[-1]
    if (found := shapes.get("backgrounds")) not in (None, (c, channels)):
        raise ValueError(f"backgrounds has shape {found}, expected ({c}, {channels})")
    for name in ("viewmats", "Ks"):
        if tensors[name].requires_grad:
            missing = "hardsplat.torch does not offer them; detach it"
            raise NotImplementedError(f"gradients of {name}: {missing}")
    places = {str(t.device) for name, t in tensors.items() if name not in ("viewmats", "Ks")}
    if len(places) > 1:
        raise UserError(f"tensors on {', '.join(sorted(places))}: they must be on one device")


class RasterizeFunction(torch.autograd.Function):
    """(means, quats, scales, opacities, colors...) -> images (S, H, W, 3) without background,
    transmittance (S, H, W), of shots of them. shown: which of the colours each shot shows."""

    @staticmethod
    def forward(ctx, engine: Engine, shots: Sequence[SplatView], shown: Sequence[int], *tensors):
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
    cameras = CameraTensors(viewmats, Ks, width, height, engine.link.peer is not None)
    _check_known(cameras)
    passes = _Passes(engine, cameras, near_plane, [means, quats, scales, opacities])
    with_colors, with_depths = "RGB" in render_mode, "D" in render_mode.replace("RGB", "")
    shift: Any = passes.add_colors(colors, sh_degree) if with_colors else 0.0
    if with_depths:
        passes.add_depths(viewmats)
    images, Ts = passes.draw()
    found, n = [], len(viewmats)
    if with_colors and with_depths:
        (images, depths), (Ts, _) = (t.split([len(t) - n, n]) for t in (images, Ts))
    else:
        depths = images
    T = Ts[:: len(Ts) // n] if len(Ts) > n else Ts  # they are alike in all passes of a camera
    if with_colors:
        image = _joined(images, n, 3 if sh_degree is not None else colors.shape[-1])
        if sh_degree is None:  # sum w (c + s) - s sum w
            image = image - shift * (1 - T)[..., None]
        if backgrounds is not None:
            image = image + T[..., None] * backgrounds.float()[:, None, None]
        found.append(image)
    if with_depths:
        depth, weight = depths[..., :1], depths[..., 1:2]
        found.append(depth / weight.clamp(min=1e-10) if "ED" in render_mode else depth)
    meta = Meta(width=width, height=height, n_cameras=n)
    return found[0] if len(found) == 1 else torch.cat(found, dim=3), (1 - T)[..., None], meta


_unchecked: deque[CameraTensors] = deque()  # of GPUs, whose numbers the host may not have yet
_CHECKING = Lock()  # two threads may call


def _check_known(cameras: CameraTensors) -> None:
    """Raises ValueError for a camera of an earlier call that is none."""
    with _CHECKING:
        _unchecked.append(cameras)
        while _unchecked and _unchecked[0].known:
            _unchecked.popleft().check()


def _joined(images: Tensor, n: int, channels: int) -> Tensor:
    """(C times parts, H, W, 3) of n cameras, one after the other -> (C, H, W, channels)."""
    if len(images) > n:
        parts = images.unflatten(0, (n, len(images) // n))
        images = parts.permute(0, 2, 3, 1, 4).flatten(3)
    return images if images.shape[3] == channels else images[..., :channels]


class _Passes:
    """Passes through the engine, of up to three channels from one camera each. splats: means,
    quats, scales, opacities."""

    def __init__(self, engine: Engine, cameras: CameraTensors, near: float, splats: list[Tensor]):
        self._engine, self._cameras, self._near, self._splats = engine, cameras, near, splats
        self._colors: list[Tensor] = []  # (N, K, 3) SH coefficients
        self._each: list[tuple[int, int, int]] = []  # camera, which colours, SH degree

    def add_colors(self, colors: Tensor, sh_degree: int | None) -> Tensor | float:
        """Returns what was added to colours that are none of spherical harmonics: the engine clamps
        them at 0, so they are drawn above it."""
        views = range(len(self._cameras.structs))
        if sh_degree is not None:
            self._colors.append(colors)
            self._each += [(c, 0, sh_degree) for c in views]
            return 0.0
        own = colors.detach()
        known = torch.where(own.isfinite(), own, 1.0)  # of others nothing is drawn
        least = known.amin() if colors.numel() else torch.ones((), device=colors.device)
        shift = torch.where(least > 0, torch.zeros_like(least), 1 - least)
        parts = [slice(first, first + 3) for first in range(0, colors.shape[-1], 3)]
        for c in views:
            if c == 0 or colors.ndim == 3:
                own = colors[c] if colors.ndim == 3 else colors
                self._colors += [_as_sh(own[:, part] + shift) for part in parts]
            first = len(self._colors) - len(parts)
            self._each += [(c, first + i, 0) for i in range(len(parts))]
        return shift

    def add_depths(self, viewmats: Tensor) -> None:
        """(depth along the axis of the camera, 1). Depths of splats that are culled are no less
        than the near plane."""
        means = self._splats[0]
        for c, axis in enumerate(viewmats[:, 2].to(means, non_blocking=means.is_cuda)):
            depths = (means @ axis[:3] + axis[3]).clamp(min=self._near)
            self._each.append((c, len(self._colors), 0))
            self._colors.append(_as_sh(torch.stack([depths, torch.ones_like(depths)], dim=1)))

    def draw(self) -> tuple[Tensor, Tensor]:
        """(S, H, W, 3) sums of weights times colours, (S, H, W) transmittance, by pass."""
        engine, cameras, tensors = self._engine, self._cameras, [*self._splats, *self._colors]
        with engine.lock:
            addresses, owners = engine.link.placed([t.detach() for t in tensors])
        shots = [
            SplatView(
                [*addresses[:4], addresses[4 + color]],
                owners,
                len(self._splats[0]),
                self._colors[color].shape[1],
                cameras.structs[c],
                None if cameras.rows is None else cameras.rows[c],
                frame_data(degree, (0.0, 0.0, 0.0), self._near).tobytes(),
                cameras.size,
            )
            for c, color, degree in self._each
        ]
        shown = [color for _, color, _ in self._each]
        return RasterizeFunction.apply(engine, shots, shown, *tensors)


def _as_sh(colors: Tensor) -> Tensor:
    """(N, up to 3) colours as SH coefficients (N, 1, 3)."""
    padded = pad(colors, (0, 3 - colors.shape[1]), value=0.5)
    return ((padded - 0.5) / SH_C0)[:, None]

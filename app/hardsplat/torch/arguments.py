"""Checks of the arguments of `rasterization`."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from hardsplat.base.errors import UserError

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
        if isinstance(value, Tensor) or (
            value != _FIXED[name]
            and not (name == "rolling_shutter" and getattr(value, "name", "") == "GLOBAL")
        ):
            raise NotImplementedError(f"{name}: hardsplat.torch offers only {_FIXED[name]!r}")


def check_shapes(tensors: dict[str, Tensor], sh_degree: int | None) -> None:
    """Checks arguments by name. Raises ValueError, NotImplementedError or UserError."""
    for name, t in tensors.items():
        if not isinstance(t, Tensor):
            raise ValueError(f"{name} is a {type(t).__name__}, expected a tensor")
        if not t.is_floating_point():
            raise ValueError(f"{name} has dtype {t.dtype}, expected float32")
    means, colors, viewmats = tensors["means"], tensors["colors"], tensors["viewmats"]
    if means.ndim > 2:
        raise NotImplementedError(
            f"means {tuple(means.shape)}: hardsplat.torch does not offer several scenes "
            "in a call; means are (N, 3)"
        )
    n, c = (len(means) if means.ndim else -1), (len(viewmats) if viewmats.ndim else -1)
    splats = dict(means=(n, 3), quats=(n, 4), scales=(n, 3), opacities=(n,))
    for name, shape in {**splats, "viewmats": (c, 4, 4), "Ks": (c, 3, 3)}.items():
        if tuple(tensors[name].shape) != shape:
            raise ValueError(f"{name} has shape {tuple(tensors[name].shape)}, expected {shape}")
    if c == 0:
        raise ValueError("viewmats has shape (0, 4, 4): there is no camera to draw from")
    if sh_degree is None:
        fits = tuple(colors.shape[:-1]) in ((n,), (c, n)) and colors.ndim > 1
        if not fits or colors.shape[-1] < 1:
            raise ValueError(
                f"colors has shape {tuple(colors.shape)}, expected ({n}, D) or ({c}, {n}, "
                f"D); with sh_degree ({n}, K, 3)"
            )
    else:
        if sh_degree not in range(4):
            raise ValueError(f"sh_degree {sh_degree} is not in 0..3")
        if colors.ndim == 4:
            raise NotImplementedError(
                "colors of four dimensions: hardsplat.torch does not offer spherical "
                "harmonics that differ by camera"
            )
        least = (sh_degree + 1) ** 2
        if tuple(colors.shape) not in [(n, k, 3) for k in (1, 4, 9, 16) if k >= least]:
            raise ValueError(
                f"colors has shape {tuple(colors.shape)}, expected ({n}, 1|4|9|16, 3) of "
                f"at least {least} coefficients with sh_degree {sh_degree}"
            )
    channels = 3 if sh_degree is not None else colors.shape[-1]
    if "backgrounds" in tensors and (shape := tuple(tensors["backgrounds"].shape)) != (c, channels):
        raise ValueError(f"backgrounds has shape {shape}, expected ({c}, {channels})")
    for name in ("viewmats", "Ks"):
        if tensors[name].requires_grad:
            raise NotImplementedError(
                f"gradients of {name}: hardsplat.torch does not offer them; detach it"
            )
    places = {str(t.device) for name, t in tensors.items() if name not in ("viewmats", "Ks")}
    if len(places) > 1:
        raise UserError(f"tensors on {', '.join(sorted(places))}: they must be on one device")

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

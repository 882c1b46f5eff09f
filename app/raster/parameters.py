"""The trained parameters of a scene on the GPU, and the counts that go with them."""

from __future__ import annotations

import numpy as np

from app import contract
from app.gaussians import Gaussians
from app.gpu.context import Device
from app.gpu.memory import Buffer

FIELDS = ("means", "quats", "log_scales", "logit_opacities", "sh")  # contract rows, one value per splat but sh: K planes


def rows_of(name: str, capacity: int, sh_planes: int) -> int:
    """Elements of a parameter row, or of its gradient, at this capacity."""
    return capacity * sh_planes if name.endswith("sh") else capacity


class Parameters:
    """Buffers of `FIELDS`, `counts` and `indirect` for up to `capacity` splats with `sh_planes` = (degree + 1)^2 coefficients each."""

    def __init__(self, device: Device, capacity: int, sh_planes: int):
        self.device, self.capacity, self.sh_planes = device, capacity, sh_planes
        self.resources = {n: Buffer(device, rows_of(n, capacity, sh_planes) * contract.itemsize(n), n) for n in FIELDS}
        for name in ("counts", "indirect"):
            self.resources[name] = Buffer(device, contract.itemsize(name), name)
        self.set_count(0)

    def set_count(self, n: int) -> None:
        counts = np.zeros(1, contract.dtype("Counts"))
        counts["splats"], counts["capacity"] = n, self.capacity
        self.resources["counts"].upload(counts)

    @property
    def counts(self) -> np.void:
        """The Counts row as it is now; waits for the copy."""
        return self.resources["counts"].download(contract.dtype("Counts"))[0]

    def upload(self, gaussians: Gaussians) -> None:
        """Replaces all splats. Missing SH bands are filled with zeros, surplus bands are an error."""
        n = len(gaussians)
        if n > self.capacity or gaussians.sh.shape[1] > self.sh_planes:
            raise ValueError(f"{n} splats of SH degree {gaussians.sh_degree} do not fit: capacity {self.capacity}, {self.sh_planes} SH planes")
        for name in FIELDS[:-1]:
            self.resources[name].upload(getattr(gaussians, name))
        self.upload_planes("sh", gaussians.sh)
        self.set_count(n)

    def upload_planes(self, name: str, values: np.ndarray) -> None:
        """(N, k, ...) -> plane-major rows of `name`; planes above k are zero."""
        width = contract.itemsize("sh") * int(np.prod(values.shape[3:], initial=1)) if values.ndim > 3 else contract.itemsize("sh")
        for k in range(self.sh_planes):
            plane = values[:, k] if k < values.shape[1] else np.zeros_like(values[:, 0])
            self.resources[name].upload(np.ascontiguousarray(plane), offset=k * self.capacity * width)

    def download(self) -> Gaussians:
        n = int(self.counts["splats"])
        values = {name: self.resources[name].download(np.float32) for name in FIELDS}
        return Gaussians.from_parameters(
            values["means"].reshape(-1, 3)[:n],
            values["quats"].reshape(-1, 4)[:n],
            values["log_scales"].reshape(-1, 3)[:n],
            values["logit_opacities"][:n],
            planes_of(values["sh"], self.capacity, self.sh_planes, n),
        )

    def destroy(self) -> None:
        for buffer in self.resources.values():
            buffer.destroy()


def planes_of(flat: np.ndarray, capacity: int, sh_planes: int, n: int) -> np.ndarray:
    """Plane-major float32 of vec3 -> (n, K, 3)."""
    return flat[: sh_planes * capacity * 3].reshape(sh_planes, capacity, 3)[:, :n].transpose(1, 0, 2).copy()

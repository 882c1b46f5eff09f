"""hardsplat.torch: against gsplat's recordings, the oracle and central differences; memory that two
APIs share; what is not offered."""

import mmap
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import vulkan as vk

from hardsplat.base.errors import UserError
from hardsplat.gpu import probe
from hardsplat.gpu.device import context
from hardsplat.gpu.device.queue import submit
from hardsplat.gpu.memory.buffer import allocate_all
from hardsplat.model.gaussians import SH_C0
from hardsplat.raster.backends import BACKENDS, running
from hardsplat.raster.tiled import rasterizer as tiled
from hardsplat.settings.train import TrainConfig
from tests.helpers.goldens import golden_names, load_golden, random_scene, relative_l2

torch = pytest.importorskip(
    "torch", reason="hardsplat.torch takes PyTorch: pip install 'hardsplat[torch]'"
)

from hardsplat.torch import configure, engines, links, rasterization, shared  # noqa: E402
from hardsplat.torch.links import Shared  # noqa: E402

PARAMETERS = ("means", "quats", "scales", "opacities", "sh")


@pytest.fixture(autouse=True)
def shared_device(device):
    configure(device)
    yield device
    engines.close()


def tensors(scene: dict, grad: bool = True) -> list:
    return [torch.tensor(scene[name], requires_grad=grad) for name in PARAMETERS]


def cameras(scene: dict, *shifts: float) -> tuple:
    """viewmats and Ks of one camera, or of several that stand beside it."""
    viewmats = np.stack(
        [scene["w2c"] @ (np.eye(4) + shift * np.eye(4, k=3)) for shift in shifts or (0.0,)]
    )
    return torch.tensor(viewmats), torch.tensor(np.stack([scene["K"]] * len(viewmats)))


@pytest.mark.parametrize("name", golden_names())
def test_images_and_gradients_are_those_of_gsplat(name):
    golden = load_golden(name)
    given = tensors(golden)
    colors, alphas, meta = rasterization(
        *given, *cameras(golden), golden["width"], golden["height"], sh_degree=golden["sh_degree"]
    )
    assert relative_l2(colors[0].detach(), golden["gsplat_image"]) < 3e-5
    assert alphas.shape == (1, golden["height"], golden["width"], 1) and meta["n_cameras"] == 1
    (colors[0] * torch.tensor(golden["weight"])).sum().backward()
    for parameter, t in zip(PARAMETERS, given):
        assert relative_l2(t.grad, golden[f"gsplat_d_{parameter}"]) < 5e-5, parameter


def broad_scene(n=3) -> list:
    """Splats whose alpha is between its limits in every pixel, so that central differences cross no
    threshold; float64 for gradcheck."""
    rng = np.random.default_rng(3)
    means = np.column_stack([rng.uniform(-0.4, 0.4, (n, 2)), np.linspace(2, 4, n)])
    given = [
        means,
        rng.normal(size=(n, 4)),
        rng.uniform(1.5, 2.5, (n, 3)),
        rng.uniform(0.3, 0.7, n),
        rng.uniform(-0.5, 1, (n, 2)),
        rng.uniform(0, 1, (1, 2)),
    ]
    return [torch.tensor(values, requires_grad=True) for values in given]


@pytest.mark.parametrize("mode, rasterize_mode", [("RGB+ED", "antialiased"), ("D", "classic")])
def test_gradients_against_central_differences(mode, rasterize_mode):
    """The renderer computes in float32: differences are as wide as their truncation allows."""
    viewmats = torch.eye(4)[None]
    viewmats[0, 0, 3] = 0.2
    K = torch.tensor([[[9.0, 0, 5], [0, 9, 4], [0, 0, 1]]])
    rng = np.random.default_rng(0)
    weights = [
        torch.tensor(rng.normal(size=(3, 1, 8, 10, channels)) / 10)
        for channels in (3 if mode != "D" else 1, 1)
    ]

    def sums(means, quats, scales, opacities, colors, backgrounds):
        image, alphas, _ = rasterization(
            means,
            quats,
            scales,
            opacities,
            colors,
            viewmats,
            K,
            10,
            8,
            backgrounds=backgrounds,
            render_mode=mode,
            rasterize_mode=rasterize_mode,
        )
        return (weights[0] * image).sum((1, 2, 3, 4)) + (weights[1] * alphas).sum((1, 2, 3, 4))

    assert torch.autograd.gradcheck(sums, broad_scene(), eps=5e-3, atol=3e-4, rtol=5e-3)


def test_channels_depth_and_backgrounds():
    """Five colours, some below 0, and the depth: sums of weights times what a splat has, whatever
    that is."""
    scene = random_scene(2, 40, 24, 16, 0)
    means, quats, scales, opacities, _ = tensors(scene, grad=False)
    viewmats, Ks = cameras(scene, 0.0, 0.4)
    colors = torch.tensor(np.random.default_rng(1).normal(size=(2, 40, 5)), dtype=torch.float32)
    backgrounds = torch.tensor(np.random.default_rng(2).normal(size=(2, 5)), dtype=torch.float32)
    image, alphas, _ = rasterization(
        means,
        quats,
        scales,
        opacities,
        colors,
        viewmats,
        Ks,
        24,
        16,
        backgrounds=backgrounds,
        render_mode="RGB+ED",
    )
    assert image.shape == (2, 16, 24, 6)
    for c in range(2):
        depths = means @ viewmats[c, 2, :3].float() + viewmats[c, 2, 3].float()
        for channel, values in enumerate((*colors[c].T, depths)):
            sh = (
                (values[:, None, None].expand(-1, 1, 3) + 9 - 0.5) / SH_C0
            ).contiguous()  # far above 0
            alone, alpha, _ = rasterization(
                means,
                quats,
                scales,
                opacities,
                sh,
                viewmats[c : c + 1],
                Ks[:1],
                24,
                16,
                sh_degree=0,
            )
            wanted = alone[0, ..., 0] - 9 * alpha[0, ..., 0]
            wanted = (
                wanted / alpha[0, ..., 0].clamp(min=1e-10)
                if channel == 5
                else wanted + (1 - alpha[0, ..., 0]) * backgrounds[c, channel]
            )
            seen = alpha[0, ..., 0] > 0.05
            assert (image[c, ..., channel] - wanted)[seen].abs().max() < 1e-4, (c, channel)
            assert torch.equal(alphas[c], alpha[0])


def test_calls_may_overlap():
    """Backward passes in another order than their forward passes, views of other sizes, parameters
    changed in place between steps."""
    scene = random_scene(3, 30, 32, 24, 1)
    given, (viewmats, Ks) = tensors(scene), cameras(scene)
    weight = torch.tensor(scene["weight"])

    def gradients(size, *, then=lambda: None):
        image = rasterization(*given, viewmats, Ks, *size, sh_degree=1)[0]
        then()
        return torch.autograd.grad((image[0] * weight[: size[1], : size[0]]).sum(), given)

    alone = {size: gradients(size) for size in ((32, 24), (16, 20))}
    overlapped = gradients((16, 20), then=lambda: gradients((32, 24)))
    for a, b in zip(overlapped, alone[16, 20]):
        assert relative_l2(a, b) < 1e-5
    before = rasterization(*given, viewmats, Ks, 32, 24, sh_degree=1)[0].detach()
    with torch.no_grad():
        given[4] += 0.1
    after = rasterization(*given, viewmats, Ks, 32, 24, sh_degree=1)[0].detach()
    assert (after - before).abs().max() > 0.01
    with torch.inference_mode():
        assert torch.equal(rasterization(*given, viewmats, Ks, 32, 24, sh_degree=1)[0], after)
    given[4].data -= 0.1  # which leaves the tensor's version as it is, as fused optimizers do
    assert (
        rasterization(*given, viewmats, Ks, 32, 24, sh_degree=1)[0].detach() - before
    ).abs().max() < 1e-5


def test_passes_of_other_degrees_share_an_engine():
    """Depth and transmittance are drawn with colours of degree 0, where the coefficients of degree
    2 stay."""
    scene = random_scene(6, 30, 24, 16, 2)
    given, views = tensors(scene), cameras(scene)
    weight = torch.tensor(np.random.default_rng(0).normal(size=(1, 16, 24, 5)), dtype=torch.float32)

    def gradients(parts):
        image, alphas, _ = rasterization(*given, *views, 24, 16, sh_degree=2, render_mode="RGB+D")
        return torch.autograd.grad(
            (torch.cat([image, alphas], dim=3) * weight)[..., parts].sum(), given, allow_unused=True
        )

    together, alone = gradients(slice(0, 5)), []
    for parts in (slice(0, 3), slice(3, 4), slice(4, 5)):
        engines.close()
        alone.append(
            [torch.zeros_like(t) if d is None else d for d, t in zip(gradients(parts), given)]
        )
    for all_at_once, *each in zip(together, *alone):
        assert relative_l2(all_at_once, sum(each)) < 1e-5
    assert together[4].shape == (30, 9, 3) and next(iter(engines._engines.values()))._key[1] == 2


def test_no_splats_and_none_in_view():
    scene = random_scene(3, 4, 16, 16, 0)
    given, (viewmats, Ks) = tensors(scene), cameras(scene)
    image, alphas, _ = rasterization(
        *(t[:0] for t in given), viewmats, Ks, 16, 16, sh_degree=0, backgrounds=torch.ones(1, 3)
    )
    assert (image == 1).all() and (alphas == 0).all()
    viewmats[0, 2, 3] -= 100
    image, alphas, _ = rasterization(*given, viewmats, Ks, 16, 16, sh_degree=0)
    image.sum().backward()
    assert (image == 0).all() and all((t.grad == 0).all() for t in given)


class Leased(np.ndarray):
    """Memory that keeps its lease."""


class Mapped:
    """The peer of lavapipe, whose exported memory can be mapped. The driver's own header comes
    first: the first buffer begins where the poison of fresh memory does."""

    tensor_device = torch.device("cpu")

    def __init__(self):
        self.imported = self.synchronized = self.header = 0

    def map(self, fd, nbytes):
        self.imported += 1
        mapped = mmap.mmap(fd, 0)
        os.close(fd)
        self.header = self.header or mapped.find(b"\xff" * 16)
        return mapped

    def pointer(self, mapping):
        return np.frombuffer(mapping, np.uint8).ctypes.data + self.header

    def tensor(self, mapping, numbers, lease=None):
        memory = np.frombuffer(mapping, np.float32, numbers, self.header).view(Leased)
        memory.lease = lease
        return torch.from_numpy(memory)

    def write(self, mapping, raw):
        mapping[self.header : self.header + len(raw)] = raw

    def semaphore(self, fd):
        raise AssertionError("this driver exports none")

    def synchronize(self):
        self.synchronized += 1

    def enter(self): ...
    def close(self): ...


class Semaphore:
    """One that stays within Vulkan."""

    def __init__(self, device):
        self.device, self.handle = (
            device,
            vk.vkCreateSemaphore(device.handle, vk.VkSemaphoreCreateInfo(), None),
        )

    def fd(self):
        return self

    def destroy(self):
        vk.vkDestroySemaphore(self.device.handle, self.handle, None)


class Signalling(Mapped):
    """Waits and signals by semaphores, as CUDA does; then waits on the host, since tensors of the
    CPU are used next."""

    def semaphore(self, fd):
        return fd

    def signal(self, semaphore):
        submit(semaphore.device, [], signal=semaphore.handle)

    def wait(self, semaphore):
        submit(semaphore.device, [], wait=semaphore.handle)
        semaphore.device.wait_idle()


@pytest.mark.parametrize("rasterizer", ["hardware", "tiled"])
def test_semaphores_order_what_both_sides_do(shared_device, rasterizer, monkeypatch):
    if (
        "memory_fd" not in shared_device.capabilities
        or "semaphore_fd" in shared_device.capabilities
        or shared_device.physical.kind != "CPU"
    ):
        pytest.skip("takes a driver on the CPU that exports memory")
    scene = random_scene(4, 200, 48, 32, 2)
    configure(shared_device, rasterizer)
    wanted = step_of(tensors(scene), scene)
    configure(shared_device, rasterizer)
    monkeypatch.setattr(links, "SharedSemaphore", Semaphore)
    monkeypatch.setattr(
        shared_device.capabilities, "names", {*shared_device.capabilities.names, "semaphore_fd"}
    )
    engines._links["cpu"] = Shared(shared_device, Signalling())
    given = [shared(t).requires_grad_() for t in tensors(scene)]
    for _ in range(3):
        for found, expected in zip(step_of(given, scene), wanted):
            assert relative_l2(found, expected) < 1e-5
    engine = engines.engine_for(torch.device("cpu"), False)
    assert len(engine.link._submissions) == 2
    lack_room(engine, monkeypatch)
    for found, expected in zip(step_of(given, scene), wanted):
        assert relative_l2(found, expected) < 1e-5
    engines.close()


@pytest.mark.parametrize(
    "rasterizer, draws", [("auto", False), ("tiled", False), ("hardware", True)]
)
def test_tensors_of_a_gpu_get_a_queue_that_only_computes(
    device, rasterizer, draws, monkeypatch, tmp_path
):
    """As far as nothing is drawn. The probe of what the device does wrong draws, so it needs
    another one."""
    if device.physical.kind != "CPU" or "memory_fd" not in device.capabilities:
        pytest.skip("takes a driver on the CPU that exports memory")
    real, opened = context.choose, []
    monkeypatch.setattr(
        context, "choose", lambda *given: replace(real(*given), compute_family=0)
    )  # its only family does both
    monkeypatch.setattr(probe, "_path", lambda device: tmp_path / "probe.json")
    monkeypatch.setattr(probe, "measure", lambda device: opened.append(device.draws) or {})
    peer = Mapped()
    peer.uuid = None
    monkeypatch.setattr(engines.cuda, "Cuda", lambda where: peer)
    monkeypatch.setattr(engines.cuda, "vulkan_index", lambda uuid: device.name)
    configure(None, rasterizer)
    try:
        link = engines._links["cpu"] = engines._link(torch.device("cuda"))
        assert link.device.draws == draws and opened == [True]
        assert (
            engines.engine_for(torch.device("cpu"), False)._backend
            is BACKENDS["hardware" if draws else "tiled"]
        )
    finally:
        engines.close()


def lack_room(engine, monkeypatch) -> None:
    """Has an engine draw with room for 10 pairs of tile or block and splat, which it finds out
    afterwards."""
    raster = engine._raster
    monkeypatch.setattr(tiled, "ROOM", 1.0)
    raster.room, small = (
        10,
        raster._pairs(10)
        if isinstance(raster, tiled.TiledRasterizer)
        else allocate_all(raster.device, raster.lists.pair_bytes(10)),
    )
    for name, buffer in small.items():
        raster._own.pop(name).destroy()
        raster._own[name] = buffer
    raster.resources = {**raster.resources, **small}
    engine._record_again()


@pytest.mark.parametrize(
    "rasterizer, options", [("tiled", {}), ("hardware", {}), ("hardware", {"blending": "fixed"})]
)
def test_images_are_complete_where_there_was_no_room(shared_device, rasterizer, options):
    """Several views in a call, of which the first shows nothing; without gradients too."""
    scene = random_scene(5, 300, 48, 32, 1)
    configure(shared_device, rasterizer, **options)
    given, (viewmats, Ks) = tensors(scene), cameras(scene, 0.0, 0.0, 0.2)
    viewmats[0, 2, 3] -= 100
    weight = torch.tensor(scene["weight"])

    def found():
        image = rasterization(*given, viewmats, Ks, 48, 32, sh_degree=1, render_mode="RGB+D")[0]
        return [image.detach(), *torch.autograd.grad((image[..., :3] * weight).sum(), given)]

    wanted = found()
    engine = engines.engine_for(torch.device("cpu"), False)
    with pytest.MonkeyPatch.context() as patch:
        lack_room(engine, patch)
        for few, many in zip(found(), wanted):
            assert relative_l2(few, many) < 1e-5
        assert engine._raster.room > 10 and not engine._short
        lack_room(engine, patch)
        with torch.no_grad():
            assert torch.equal(
                rasterization(*given, viewmats, Ks, 48, 32, sh_degree=1, render_mode="RGB+D")[0],
                wanted[0],
            )


def step_of(given, scene) -> list:
    """Image and gradients."""
    for t in given:
        t.grad = None
    image = rasterization(*given, *cameras(scene), 48, 32, sh_degree=2)[0][0]
    (image * torch.tensor(scene["weight"])).sum().backward()
    return [image.detach(), *(t.grad for t in given)]


@pytest.mark.parametrize("rasterizer", ["hardware", "tiled"])
def test_shared_memory_computes_what_copies_do(shared_device, rasterizer):
    """All but CUDA itself: exported memory, written and read in place. Parameters are copied there,
    or live there; gradients always do."""
    if (
        "memory_fd" not in shared_device.capabilities
        or "semaphore_fd" in shared_device.capabilities
        or shared_device.physical.kind != "CPU"
    ):
        pytest.skip("takes a driver on the CPU that exports memory")
    scene = random_scene(4, 200, 48, 32, 2)
    results = []
    for how in ("copied", "shared", "in place"):
        configure(shared_device, rasterizer)
        cpu = torch.device("cpu")
        if how != "copied":
            link = engines._links["cpu"] = Shared(shared_device, Mapped())
        given = tensors(scene)
        if how == "in place":
            given = [shared(t).requires_grad_() for t in given]
            assert shared(given[0]).data_ptr() == given[0].data_ptr()
        images, first = [], []
        for _ in range(2):  # the second with other numbers in the same memory
            image = rasterization(*given, *cameras(scene), 48, 32, sh_degree=2)[0][0]
            (image * torch.tensor(scene["weight"])).sum().backward()
            images.append(image.detach())
            first = first or [t.grad.clone() for t in given]
            with torch.no_grad():
                given[0] += 0.05
        results.append([*images, *first, *(t.grad for t in given)])
        if how != "copied":
            engine = engines.engine_for(cpu, False)
            assert len(engine._splats._copies) == (5 if how == "shared" else 0)
            assert all(link.address(t.grad) for t in given) and link.address(given[0][5:]) == (
                link.address(given[0]) + 60 if how == "in place" else None
            )
            assert link.peer.synchronized >= 4
            imported = link.peer.imported
            for t in given:
                t.grad = None
            rasterization(*given, *cameras(scene), 48, 32, sh_degree=2)[0].sum().backward()
            assert link.peer.imported == imported  # gradients went where the others had been
            kept = given[0].grad, given[0].grad.clone()
            engines.close()
            assert torch.equal(*kept)
    for copied, shared_, in_place in zip(*results):
        assert relative_l2(shared_, copied) < 1e-5 and relative_l2(in_place, copied) < 1e-5


def test_shared_takes_float32_alone():
    with pytest.raises(UserError, match="dtype torch.float64, expected float32"):
        shared(torch.zeros(3, dtype=torch.float64))
    assert (
        shared(plain := torch.zeros(3)) is not None and shared(plain).data_ptr() == plain.data_ptr()
    )  # CPU tensors stay where they are


def arguments(**changes) -> dict:
    scene = random_scene(1, 4, 16, 16, 0)
    given = dict(
        zip(("means", "quats", "scales", "opacities", "colors"), tensors(scene)),
        sh_degree=0,
        width=16,
        height=16,
    )
    given["viewmats"], given["Ks"] = cameras(scene)
    return {**given, **changes}


@pytest.mark.parametrize(
    "change, error, said",
    [
        ({"absgrad": True}, NotImplementedError, "absgrad: hardsplat.torch offers only False"),
        (
            {"camera_model": "fisheye"},
            NotImplementedError,
            "camera_model: hardsplat.torch offers only 'pinhole'",
        ),
        (
            {"covars": torch.zeros(4, 6)},
            NotImplementedError,
            "covars: hardsplat.torch offers only None",
        ),
        ({"far_plane": 10.0}, NotImplementedError, "far_plane"),
        (
            {"viewmats": torch.eye(4)[None].requires_grad_()},
            NotImplementedError,
            "gradients of viewmats",
        ),
        ({"means": torch.zeros(2, 4, 3)}, NotImplementedError, "several scenes"),
        ({"colors": torch.zeros(1, 4, 1, 3)}, NotImplementedError, "differ by camera"),
        ({"no_such": 1}, TypeError, "no argument no_such"),
        ({"render_mode": "XYZ"}, ValueError, "render_mode 'XYZ'"),
        ({"rasterize_mode": "soft"}, ValueError, "rasterize_mode 'soft'"),
        ({"near_plane": 0.0}, ValueError, "near_plane 0.0"),
        (
            {"quats": torch.zeros(4, 3)},
            ValueError,
            "quats has shape \\(4, 3\\), expected \\(4, 4\\)",
        ),
        ({"opacities": torch.zeros(4, 1)}, ValueError, "opacities has shape"),
        ({"colors": torch.zeros(4, 4, 3), "sh_degree": 2}, ValueError, "at least 9 coefficients"),
        ({"colors": torch.zeros(3, 3), "sh_degree": None}, ValueError, "expected \\(4, D\\)"),
        ({"sh_degree": 4}, ValueError, "sh_degree 4"),
        (
            {"backgrounds": torch.zeros(3)},
            ValueError,
            "backgrounds has shape \\(3,\\), expected \\(1, 3\\)",
        ),
        ({"means": np.zeros((4, 3))}, ValueError, "means is a ndarray"),
        ({"means": torch.zeros(4, 3, dtype=torch.int32)}, ValueError, "dtype torch.int32"),
        ({"viewmats": 2 * torch.eye(4)[None]}, ValueError, "rigid"),
        ({"means": torch.zeros(4, 3, device="meta")}, UserError, "must be on one device"),
    ],
)
def test_what_is_not_offered_and_what_does_not_fit(change, error, said):
    with pytest.raises(error, match=said):
        rasterization(**arguments(**change))


def test_meta_names_what_it_lacks():
    meta = rasterization(**arguments(packed=False, tile_size=8))[2]
    assert meta["width"] == 16
    with pytest.raises(KeyError, match="means2d: hardsplat.torch does not offer it"):
        meta["means2d"]


def test_options_are_checked(shared_device):
    with pytest.raises(UserError, match="no_such: there is no such option; there are"):
        configure(shared_device, "tiled", no_such=1)
    with pytest.raises(UserError, match="rasterizer nowhere"):
        configure(shared_device, "nowhere")


def test_auto_leaves_the_choice_open(shared_device, monkeypatch):
    """The format of the hardware rasterizer, which the tiled one does not have, must not decide."""
    asked = []
    monkeypatch.setattr(
        engines, "fastest", lambda device, settings: asked.append(settings) or "tiled"
    )
    configure(shared_device)
    assert rasterization(**arguments())[0].shape == (1, 16, 16, 3)
    assert running(shared_device, asked[0]) == running(shared_device, TrainConfig())


def test_without_pytorch_it_says_what_to_install():
    code = (
        "import sys; sys.modules['torch'] = None\nimport hardsplat\nfrom "
        "hardsplat.base.errors import UserError\ntry:\n    import hardsplat.torch\nexcept "
        "UserError as e:\n    print(e)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'hardsplat[torch]'" in out.stdout, out.stderr

"""hardsplat.torch: against gsplat's recordings and the oracle; shared memory; refusals."""

import mmap
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.gpu import probe
from hardsplat.gpu.device import context, instance
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.resources import allocate_all
from hardsplat.model.gaussians import SH_C0
from hardsplat.raster.backends import BACKENDS
from hardsplat.raster.core import rasterizer as pair_lists
from hardsplat.raster.tiled import rasterizer as tiled
from tests.helpers import needs
from tests.helpers.drawing import PARAMETERS
from tests.helpers.goldens import golden_names, load_golden, random_scene, relative_l2

torch = needs.module("torch", needs.EVERYTHING)

from hardsplat.torch import configure, engines, links, rasterization, shared  # noqa: E402
from hardsplat.torch.cameras import NUMBERS, CameraTensors, rows_of  # noqa: E402
from hardsplat.torch.engines import Engine  # noqa: E402
from hardsplat.torch.links import Lent, Shared  # noqa: E402


@pytest.fixture(autouse=True)
def shared_device(device):
    configure(device)
    yield device
    engines.close()


def tensors(scene: dict, grad: bool = True, where="cpu") -> list:
    return [torch.tensor(scene[name], device=where, requires_grad=grad) for name in PARAMETERS]


def cameras(scene: dict, *shifts: float, where="cpu", dtype=None) -> tuple:
    """viewmats and Ks of one camera, or of several that stand beside it."""
    moves = [np.eye(4) + shift * np.eye(4, k=3) for shift in shifts or (0.0,)]
    viewmats = np.stack([scene["w2c"] @ move for move in moves])
    both = viewmats, np.stack([scene["K"]] * len(viewmats))
    return tuple(torch.tensor(each, device=where, dtype=dtype) for each in both)


def skip_unless_memory_is_shared(device) -> None:
    kind = device.physical.kind == "CPU" and "semaphore_fd" not in device.capabilities
    if not kind or "memory_fd" not in device.capabilities:
        pytest.skip("takes a driver on the CPU that exports memory")


def agree(found, wanted) -> bool:
    return all(relative_l2(a, b) < 1e-5 for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("name", golden_names())
def test_images_and_gradients_are_those_of_gsplat(name, where="cpu"):
    golden = load_golden(name)
    given, views = tensors(golden, where=where), cameras(golden, where=where)
    size, degree = (golden["width"], golden["height"]), golden["sh_degree"]
    colors, alphas, meta = rasterization(*given, *views, *size, sh_degree=degree)
    assert relative_l2(colors[0].detach().cpu(), golden["gsplat_image"]) < 3e-5
    assert alphas.shape == (1, *size[::-1], 1) and meta["n_cameras"] == 1
    (colors[0] * torch.tensor(golden["weight"], device=where)).sum().backward()
    for parameter, t in zip(PARAMETERS, given):
        assert relative_l2(t.grad.cpu(), golden[f"gsplat_d_{parameter}"]) < 5e-5, parameter


def broad_scene(n=3) -> list:
    """Splats whose alpha stays between its limits in every pixel; float64 for gradcheck."""
    rng = np.random.default_rng(3)
    means = np.column_stack([rng.uniform(-0.4, 0.4, (n, 2)), np.linspace(2, 4, n)])
    given = [means, rng.normal(size=(n, 4)), rng.uniform(1.5, 2.5, (n, 3))]
    given += [rng.uniform(0.3, 0.7, n), rng.uniform(-0.5, 1, (n, 2)), rng.uniform(0, 1, (1, 2))]
    return [torch.tensor(values, requires_grad=True) for values in given]


DIFFERENCES = [
    ("RGB+ED", "antialiased", "tiled", {}),
    ("D", "classic", "tiled", {"tile_backward": "per-splat"}),
    ("RGB+ED", "classic", "hardware", {}),
    ("RGB+ED", "classic", "hardware", {"ordering": "waiting", "block": "1x1"}),
    ("RGB+ED", "classic", "hardware", {"ordering": "waiting", "block": "2x2"}),
]


@pytest.mark.parametrize("mode, rasterize_mode, rasterizer, options", DIFFERENCES)
def test_gradients_against_central_differences(
    mode, rasterize_mode, rasterizer, options, shared_device, request
):
    """In float32: differences as wide as truncation allows. The gradient of alpha is taken too."""
    if "ordering" in options:
        options = {**options, "ordering": request.getfixturevalue("waiting")}
    configure(shared_device, rasterizer, **options)
    viewmats = torch.eye(4)[None]
    viewmats[0, 0, 3] = 0.2
    K = torch.tensor([[[9.0, 0, 5], [0, 9, 4], [0, 0, 1]]])
    rng = np.random.default_rng(0)
    shapes = [(3, 1, 8, 10, channels) for channels in (3 if mode != "D" else 1, 1)]
    weights = [torch.tensor(rng.normal(size=shape) / 10) for shape in shapes]
    how = dict(render_mode=mode, rasterize_mode=rasterize_mode)

    def sums(*given):
        *splats, backgrounds = given
        view = viewmats, K, 10, 8
        image, alphas, _ = rasterization(*splats, *view, backgrounds=backgrounds, **how)
        return (weights[0] * image).sum((1, 2, 3, 4)) + (weights[1] * alphas).sum((1, 2, 3, 4))

    assert torch.autograd.gradcheck(sums, broad_scene(), eps=5e-3, atol=3e-4, rtol=5e-3)
    given = broad_scene()
    image, alphas, _ = rasterization(*given[:5], viewmats, K, 10, 8, **how)
    both = (weights[0] * image).sum(), (weights[1] * alphas).sum()
    together = torch.autograd.grad(sum(both), given[:4], retain_graph=True)
    of_image = torch.autograd.grad(both[0], given[:4], retain_graph=True)
    of_alphas = torch.autograd.grad(both[1], given[:4])  # where no gradient of a colour is
    for whole, *parts in zip(together, of_image, of_alphas):
        assert relative_l2(sum(parts), whole) < 1e-4


def test_channels_depth_and_backgrounds():
    """Five colours, some below 0, and the depth: sums of weights times what a splat has."""
    scene = random_scene(2, 40, 24, 16, 0)
    *splats, _ = tensors(scene, grad=False)
    viewmats, Ks = cameras(scene, 0.0, 0.4)
    rng = np.random.default_rng(1)
    normal = lambda *size: torch.tensor(rng.normal(size=size), dtype=torch.float32)
    colors, backgrounds = normal(2, 40, 5), normal(2, 5)
    how = dict(backgrounds=backgrounds, render_mode="RGB+ED")
    image, alphas, _ = rasterization(*splats, colors, viewmats, Ks, 24, 16, **how)
    assert image.shape == (2, 16, 24, 6)
    for c in range(2):
        depths = splats[0] @ viewmats[c, 2, :3].float() + viewmats[c, 2, 3].float()
        for channel, values in enumerate((*colors[c].T, depths)):
            sh = (values[:, None, None].expand(-1, 1, 3) + 9 - 0.5) / SH_C0  # far above 0
            view = viewmats[c : c + 1], Ks[:1], 24, 16
            alone, alpha, _ = rasterization(*splats, sh.contiguous(), *view, sh_degree=0)
            weight = alpha[0, ..., 0]
            wanted = alone[0, ..., 0] - 9 * weight
            if channel == 5:
                wanted = wanted / weight.clamp(min=1e-10)
            else:
                wanted = wanted + (1 - weight) * backgrounds[c, channel]
            off = (image[c, ..., channel] - wanted)[weight > 0.05]
            assert off.abs().max() < 1e-4, (c, channel)
            assert torch.equal(alphas[c], alpha[0])


def test_splats_of_a_colour_that_is_not_finite_are_left_out():
    *splats, _ = tensors(random_scene(2, 40, 24, 16, 0), grad=False)
    colors, view = torch.randn(40, 4), (*cameras(random_scene(2, 40, 24, 16, 0), 0.0), 24, 16)
    colors[3, 1] = torch.nan
    others = torch.arange(40) != 3
    image, *_ = rasterization(*splats, colors, *view)
    wanted, *_ = rasterization(*(t[others] for t in (*splats, colors)), *view)
    assert (image[..., :3] - wanted[..., :3]).abs().max() < 1e-5


def test_the_first_call_may_be_one_of_inference():
    given, views = tensors(random_scene(3, 30, 32, 24, 1)), cameras(random_scene(3, 30, 32, 24, 1))
    with torch.inference_mode():
        wanted, *_ = rasterization(*given, *views, 32, 24, sh_degree=1)
    image, *_ = rasterization(*given, *views, 32, 24, sh_degree=1)
    image.sum().backward()
    assert torch.equal(image.detach(), wanted) and all(t.grad.isfinite().all() for t in given)


def test_calls_may_overlap():
    """Backward passes in another order, views of other sizes, parameters changed in place."""
    scene = random_scene(3, 30, 32, 24, 1)
    given, views, weight = tensors(scene), cameras(scene), torch.tensor(scene["weight"])

    def drawn(*size):
        return rasterization(*given, *views, *(size or (32, 24)), sh_degree=1)[0]

    def gradients(size, *, then=lambda: None):
        image = drawn(*size)
        then()
        return torch.autograd.grad((image[0] * weight[: size[1], : size[0]]).sum(), given)

    alone = {size: gradients(size) for size in ((32, 24), (16, 20))}
    overlapped = gradients((16, 20), then=lambda: gradients((32, 24)))
    assert agree(overlapped, alone[16, 20])
    before = drawn().detach()
    with torch.no_grad():
        given[4] += 0.1
    after = drawn().detach()
    assert (after - before).abs().max() > 0.01
    with torch.inference_mode():
        assert torch.equal(drawn(), after)
    given[4].data -= 0.1  # which leaves the tensor's version as it is, as fused optimizers do
    assert (drawn().detach() - before).abs().max() < 1e-5


WITH_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="takes a GPU with CUDA")


@pytest.mark.parametrize("where", ["cpu", pytest.param("cuda", marks=WITH_CUDA)])
@pytest.mark.parametrize("mode", ["RGB", "RGB+D"])
def test_views_of_a_call_are_those_of_calls_of_their_own(where, mode):
    """More views than there are slots; and backward passes of calls in another order."""
    scene = random_scene(7, 300, 64, 48, 1)
    given = [t.detach().to(where).requires_grad_() for t in tensors(scene)]
    views = [t.float().to(where) for t in cameras(scene, *np.linspace(0, 0.4, 11))]
    weight = torch.tensor(scene["weight"]).to(where)
    how = dict(sh_degree=1, render_mode=mode)

    def loss(image, alpha):
        return (image[..., :3] * weight).sum() + image[..., -1].sum() + alpha.square().sum()

    together, alphas, _ = rasterization(*given, *views, 64, 48, **how)
    pairs = zip(*(v.split(1) for v in views))
    each = [rasterization(*given, *pair, 64, 48, **how) for pair in pairs]
    for c, (image, alpha, _) in enumerate(each):
        assert torch.equal(image[0], together[c]) and torch.equal(alpha[0], alphas[c])
    found = torch.autograd.grad(loss(together, alphas), given)
    alone = [torch.autograd.grad(loss(image, alpha), given) for image, alpha, _ in each]
    for i, t in enumerate(found):
        assert relative_l2(t.cpu(), sum(a[i] for a in alone).cpu()) < 1e-5, PARAMETERS[i]


def test_rows_of_cameras_begin_their_structs():
    given = cameras(random_scene(9, 4, 16, 16, 0), 0.0, 0.7)
    structs = CameraTensors(*given, 16, 16, on_gpu=False).structs
    for row, struct in zip(rows_of(*given), structs, strict=True):
        assert np.array_equal(row.numpy(), np.frombuffer(struct, np.float32, NUMBERS))


class Leased(np.ndarray):
    """Memory that keeps its lease."""


class Mapped:
    """lavapipe's peer, which maps exported memory; buffers begin at the poison behind it."""

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


DRAWS = [("auto", False), ("tiled", False), ("hardware", True)]


@pytest.mark.parametrize("rasterizer, draws", DRAWS)
def test_tensors_of_a_gpu_get_a_queue_that_only_computes(
    device, rasterizer, draws, monkeypatch, tmp_path
):
    """Unless something is drawn. The probe of the device draws, so it needs another one."""
    if device.physical.kind != "CPU" or "memory_fd" not in device.capabilities:
        pytest.skip("takes a driver on the CPU that exports memory")
    real, opened, peer = instance.choose, [], Mapped()
    both = lambda *given: replace(real(*given), compute_family=0)  # its only family does both
    monkeypatch.setattr(context, "choose", both)
    monkeypatch.setattr(probe.cache, "cache_file", lambda *_: tmp_path / "probe.json")
    monkeypatch.setattr(probe, "measure", lambda device: opened.append(device.draws) or {})
    peer.uuid = None
    monkeypatch.setattr(engines.cuda, "Cuda", lambda where: peer)
    monkeypatch.setattr(engines.cuda, "vulkan_index", lambda uuid: device.name)
    configure(None, rasterizer)
    try:
        link = engines._links["cpu"] = engines._link(torch.device("cuda"))
        assert link.device.draws == draws and opened == [True]
        backend = engines.engine_for(torch.device("cpu"), False)._backend
        assert backend is BACKENDS["hardware" if draws else "tiled"]
    finally:
        engines.close()


def test_gradients_of_an_image_of_before_configure(shared_device):
    """What it was drawn from is freed by then."""
    scene = random_scene(1, 20, 32, 32, 1)
    given, views = tensors(scene), cameras(scene)
    image, _, _ = rasterization(*given, *views, 32, 32, sh_degree=1)
    configure(shared_device)
    with pytest.raises(RuntimeError, match="configured anew since this image was drawn"):
        image.sum().backward()
    again, _, _ = rasterization(*given, *views, 32, 32, sh_degree=1)
    again.sum().backward()
    assert torch.equal(again, image) and all(t.grad.any() for t in given)


def lack_room(engine, monkeypatch) -> None:
    """Has an engine draw with room for 10 pairs, which it finds out afterwards."""
    monkeypatch.setattr(pair_lists, "HEADROOM", 1.0)
    for slot in engine.slots:
        raster = slot.raster
        raster.pair_capacity = 10
        small = allocate_all(raster.device, raster._pair_bytes(10))
        for name, buffer in small.items():
            raster._own.pop(name).destroy()
            raster._own[name] = buffer
        raster.resources = {**raster.resources, **small}
        slot.record_again()


UNLISTED = ("unlisted", {}), ("unlisted", {"tile_backward": "per-splat"})
WAYS = [("tiled", {}), *UNLISTED, ("hardware", {}), ("hardware", {"blending": "fixed"})]


@pytest.mark.parametrize("rasterizer, options", WAYS)
def test_images_are_complete_where_there_was_no_room(
    shared_device, rasterizer, options, monkeypatch
):
    """Several views in a call, of which the first shows nothing; without gradients too."""
    if unlisted := rasterizer == "unlisted":  # as on devices with wide subgroups
        rasterizer = "tiled"
        monkeypatch.setattr(tiled, "is_local", lambda row, lanes: False)
    scene = random_scene(5, 300, 48, 32, 1)
    configure(shared_device, rasterizer, **options)
    given, (viewmats, Ks) = tensors(scene), cameras(scene, 0.0, 0.0, 0.2)
    viewmats[0, 2, 3] -= 100
    weight, how = torch.tensor(scene["weight"]), dict(sh_degree=1, render_mode="RGB+D")

    def drawn():
        return rasterization(*given, viewmats, Ks, 48, 32, **how)[0]

    def found():
        image = drawn()
        return [image.detach(), *torch.autograd.grad((image[..., :3] * weight).sum(), given)]

    wanted = found()
    engine = engines.engine_for(torch.device("cpu"), False)
    with pytest.MonkeyPatch.context() as patch:
        lack_room(engine, patch)
        assert agree(found(), wanted)
        assert all(slot.raster.draws_unlisted == unlisted for slot in engine.slots)
        assert unlisted or max(slot.raster.pair_capacity for slot in engine.slots) > 10
        if unlisted:  # what it knew of them by the next call
            drawn()
            assert max(slot.raster.pair_capacity for slot in engine.slots) > 10
        lack_room(engine, patch)
        with torch.no_grad():
            assert torch.equal(drawn(), wanted[0])


def first_images(
    monkeypatch, in_order: bool, configured: bool = False, calls: int = 2, **more
) -> tuple[list, Engine]:
    """Image and gradients of the last call, the engine. more: attributes of the module."""
    monkeypatch.setattr(tiled, "is_local", lambda row, lanes: not in_order)
    scene = random_scene(5, 300, 48, 32, 1)
    if not configured:
        configure(engines._wanted["device"], "tiled")
    given, views = tensors(scene), cameras(scene, 0.0, 0.2)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in more.items():
            patch.setattr(tiled, name, value)
        for _ in range(calls):
            image = rasterization(*given, *views, 48, 32, sh_degree=1)[0]
            weighted = (image * torch.tensor(scene["weight"])).sum()
            found = [image.detach(), *torch.autograd.grad(weighted, given)]
    return found, engines.engine_for(torch.device("cpu"), False)


SMALL = dict(FEWEST_PAIRS=1, PAIRS_PER_SPLAT=0)


@pytest.mark.parametrize("in_order", [True, False])
def test_the_first_image_makes_room(monkeypatch, in_order):
    """The host waits for no other one whose tiles can do without lists."""
    wanted, _ = first_images(monkeypatch, in_order)
    found, engine = first_images(monkeypatch, in_order, calls=1, **SMALL)
    assert agree(found, wanted)
    for slot in engine.slots:
        assert slot.raster.pair_capacity >= slot.wanted > 100 and slot.waits != in_order


@pytest.mark.parametrize("in_order", [True, False])
def test_images_without_memory_for_lists(monkeypatch, in_order):
    """They are complete, or there is an error and the next call begins again."""
    wanted, _ = first_images(monkeypatch, in_order)
    allocated = []

    def full(device, nbytes, lives):
        allocated.append(nbytes)
        if nbytes.get("pair_splats", 0) > 64:
            raise OutOfMemory("full")
        return allocate_all(device, nbytes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_lists, "allocate_overlaid", full)
        if in_order:
            found, engine = first_images(monkeypatch, in_order, **SMALL)
            assert agree(found, wanted)
            assert all(slot.raster.pair_capacity < slot.wanted for slot in engine.slots)
            tried = ["checkpoints" in sizes for sizes in allocated if sizes["pair_splats"] > 64]
            assert tried == [True, False] * len(engine.slots)  # once, with and without them
        else:
            with pytest.raises(OutOfMemory):
                first_images(monkeypatch, in_order, **SMALL)
            assert not engines.engine_for(torch.device("cpu"), False).slots
    assert agree(first_images(monkeypatch, in_order)[0], wanted)


def test_more_pairs_than_descriptors_reach(monkeypatch, caplog):
    """Tiles that sort their own splats go through all of them from then on."""
    wanted, _ = first_images(monkeypatch, False)
    limit = dict(most_pairs=lambda in_order, reach: 100)
    found, engine = first_images(monkeypatch, False, **SMALL, **limit)
    assert agree(found, wanted) and "drawn without lists" in caplog.text
    assert all(slot.raster.draws_unlisted and not slot.waits for slot in engine.slots)


@pytest.mark.parametrize("rasterizer", ["hardware", "tiled"])
def test_shared_memory_computes_what_copies_do(shared_device, rasterizer):
    """Parameters are copied to exported memory, or live there; gradients always do."""
    skip_unless_memory_is_shared(shared_device)
    scene = random_scene(4, 200, 48, 32, 2)
    results = []
    for how in ("copied", "shared", "in place"):
        configure(shared_device, rasterizer)
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
            copies = [owner for owner in link.placed(given)[1] if isinstance(owner, Lent)]
            assert len(copies) == (how == "shared")
            del copies, image  # and with it the copies of its splats
            at = link.pool.address(given[0]) + 60 if how == "in place" else None
            assert (
                all(link.pool.address(t.grad) for t in given)
                and link.pool.address(given[0][5:]) == at
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


class Signalled(Mapped):
    """A peer with semaphores, of which it notes the use. Its side waits on the host."""

    def __init__(self, device):
        super().__init__()
        self.device, self.made, self.seen = device, 0, []
        self.interrupted = ""  # where Ctrl-C comes next

    def semaphore(self, fd):
        self.made += 1
        return self.made

    def _note(self, what, semaphore):
        if self.interrupted == what:
            self.interrupted = ""
            raise KeyboardInterrupt
        self.seen.append((what, semaphore))

    def signal(self, semaphore):
        self._note("signal", semaphore)

    def wait(self, semaphore):
        self._note("wait", semaphore)
        self.device.wait_idle()


def pretend_semaphores(device, monkeypatch) -> None:
    """Has the device submit as with semaphores that it exports, of which it uses none."""
    plain = SimpleNamespace(handle=None, fd=lambda: 0, destroy=lambda: None)
    monkeypatch.setattr(links, "SharedSemaphore", lambda device: plain)
    own = device.capabilities
    able = replace(own, names={*own.names, "semaphore_fd"})
    monkeypatch.setattr(device, "capabilities", able)


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("interrupted", ["", "signal", "wait"])
def test_sides_take_turns(shared_device, monkeypatch, in_order, interrupted):
    """Each waits for what the other signalled, after an interrupt too."""
    skip_unless_memory_is_shared(shared_device)
    wanted, _ = first_images(monkeypatch, in_order)
    pretend_semaphores(shared_device, monkeypatch)
    monkeypatch.setattr(links, "MOST_SUBMISSIONS", 2)
    peer = Signalled(shared_device)

    def drawn():
        configure(shared_device, "tiled")
        engines._links["cpu"] = Shared(shared_device, peer)
        return first_images(monkeypatch, in_order, configured=True)[0]

    assert agree(drawn(), wanted)
    if interrupted:
        link, peer.interrupted = engines._links["cpu"], interrupted
        with pytest.raises(KeyboardInterrupt):
            first_images(monkeypatch, in_order, configured=True)
        assert agree(first_images(monkeypatch, in_order, configured=True)[0], wanted)
        assert engines._links["cpu"] is link
    made = 4 if interrupted else 2
    assert peer.made == made
    whole = [turn for turn in peer.seen if turn[1] > made - 2]
    assert len(whole) >= 8 and whole == [("signal", made - 1), ("wait", made)] * (len(whole) // 2)


@pytest.mark.parametrize("row", ["reduce-scatter", "per-splat", "gather"])
def test_no_hazards_between_passes_and_views(monkeypatch, row):
    """Synchronization validation is silent, for tiles with and without lists."""
    device = Device(validation="sync")
    skip_unless_memory_is_shared(device)
    scene = random_scene(5, 300, 48, 32, 1)
    given, views = tensors(scene), cameras(scene, 0.0, 0.2, 0.3)
    pretend_semaphores(device, monkeypatch)
    monkeypatch.setattr(tiled, "is_local", lambda row, lanes: False)
    for most in (1, 1 << 12):
        monkeypatch.setattr(tiled.TiledRasterizer, "_most_pairs", lambda self: most)
        configure(device, "tiled", tile_backward=row)
        engines._links["cpu"] = Shared(device, Signalled(device))
        image, alphas, _ = rasterization(*given, *views, 48, 32, sh_degree=1, render_mode="RGB+D")
        (image.sum() + alphas.sum()).backward()
        engines.close()
    device.close()


def arguments(**changes) -> dict:
    scene, names = random_scene(1, 4, 16, 16, 0), (*PARAMETERS[:4], "colors")
    given = dict(zip(names, tensors(scene)), sh_degree=0, width=16, height=16)
    given["viewmats"], given["Ks"] = cameras(scene)
    return {**given, **changes}


EYE, ZEROS = torch.eye(4)[None], torch.zeros
NOT_OFFERED = [
    (dict(absgrad=True), "absgrad: hardsplat.torch offers only False"),
    (dict(camera_model="fisheye"), "camera_model: hardsplat.torch offers only 'pinhole'"),
    (dict(covars=ZEROS(4, 6)), "covars: hardsplat.torch offers only None"),
    (dict(far_plane=10.0), "far_plane"),
    (dict(viewmats=EYE.clone().requires_grad_()), "gradients of viewmats"),
    (dict(means=ZEROS(2, 4, 3)), "several scenes"),
    (dict(colors=ZEROS(1, 4, 1, 3)), "differ by camera"),
]
WRONG = [
    (dict(render_mode="XYZ"), "render_mode 'XYZ'"),
    (dict(rasterize_mode="soft"), "rasterize_mode 'soft'"),
    (dict(near_plane=0.0), "near_plane 0.0"),
    (dict(quats=ZEROS(4, 3)), "quats has shape \\(4, 3\\), expected \\(4, 4\\)"),
    (dict(opacities=ZEROS(4, 1)), "opacities has shape"),
    (dict(colors=ZEROS(4, 4, 3), sh_degree=2), "at least 9 coefficients"),
    (dict(colors=ZEROS(3, 3), sh_degree=None), "expected \\(4, D\\)"),
    (dict(sh_degree=4), "sh_degree 4"),
    (dict(backgrounds=ZEROS(3)), "backgrounds has shape \\(3,\\), expected \\(1, 3\\)"),
    (dict(means=np.zeros((4, 3))), "means is a ndarray"),
    (dict(means=ZEROS(4, 3, dtype=torch.int32)), "dtype torch.int32"),
    (dict(viewmats=2 * EYE), "rigid"),
]
CASES = [(change, NotImplementedError, said) for change, said in NOT_OFFERED]
CASES += [(change, ValueError, said) for change, said in WRONG]
CASES += [({"no_such": 1}, TypeError, "no argument no_such")]
CASES += [({"means": ZEROS(4, 3, device="meta")}, UserError, "must be on one device")]


@pytest.mark.parametrize("change, error, said", CASES)
def test_what_is_not_offered_and_what_does_not_fit(change, error, said):
    with pytest.raises(error, match=said):
        rasterization(**arguments(**change))


WITHOUT = """
import sys
sys.modules["torch"] = None
import hardsplat
from hardsplat.base.errors import OutOfMemory, UserError
try:
    import hardsplat.torch
except UserError as error:
    print(error)
"""


def test_without_pytorch_it_says_what_to_install():
    out = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert "pip install 'hardsplat[torch]'" in out.stdout, out.stderr

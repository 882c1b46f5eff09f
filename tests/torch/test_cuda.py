"""hardsplat.torch on CUDA tensors: memory and order that two APIs share."""

import pytest

from tests.helpers import needs
from tests.helpers.goldens import golden_names, random_scene, relative_l2

torch = needs.module("torch", needs.EVERYTHING)

from hardsplat.torch import configure, engines, rasterization, shared  # noqa: E402
from tests.torch import test_torch as cpu  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="takes a GPU with CUDA")


@pytest.fixture(autouse=True)
def one_order():
    """Sums in one order, so that equal runs have equal bits."""
    configure(None, "tiled", tile_backward="gather")
    yield
    engines.close()


def tensors(scene: dict) -> list:
    return cpu.tensors(scene, where="cuda")


def cameras(scene: dict, *shifts: float, where="cuda") -> tuple:
    return cpu.cameras(scene, *shifts, where=where, dtype=torch.float32)


@pytest.mark.parametrize("name", golden_names())
def test_images_and_gradients_are_those_of_gsplat(name):
    configure()
    cpu.test_images_and_gradients_are_those_of_gsplat(name, "cuda")


def trained(scene: dict, in_place: bool, waits: bool, steps: int = 60) -> list:
    """Parameters after steps over two sizes on two streams in turn; the sum of all images."""
    given = tensors(scene)
    if in_place:
        given = [shared(t.detach()).requires_grad_() for t in given]
    optimizer = torch.optim.SGD(given, lr=2.0, fused=True)
    streams, total = (torch.cuda.default_stream(), torch.cuda.Stream()), 0
    viewmats, Ks = cameras(scene, 0.0, 0.1, 0.2, 0.3)
    busy = torch.ones(1 << 20, device="cuda")
    for step in range(steps):
        streams[step % 2].wait_stream(streams[1 - step % 2])
        with torch.cuda.stream(streams[step % 2]):
            busy = (busy * 1.0001).sqrt()
            views, width = [step % 4, *([(step + 1) % 4] * (step % 3 == 0))], 96 - 16 * (step % 2)
            moved = viewmats[views] + 0.0
            if waits:
                torch.cuda.synchronize()
            image, alpha, _ = rasterization(*given, moved, Ks[views], width, 64, sh_degree=2)
            if waits:
                torch.cuda.synchronize()
            loss = (image - 0.5).square().mean() + 0.1 * alpha.mean()
            loss.backward()
            if waits:
                torch.cuda.synchronize()
            total = total + image.detach().sum((0, 1, 2))
            optimizer.step()
            optimizer.zero_grad()
    torch.cuda.synchronize()
    return [each.detach().cpu().numpy() for each in (*given, total)]


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("backward", ["gather", "auto"])
def test_steps_that_do_not_wait_compute_what_those_do_that_wait(backward, in_place):
    """The bits of them where sums have one order, else all but a few roundings of float32."""
    configure(None, "tiled", tile_backward=backward)
    scene = random_scene(6, 20_000, 96, 64, 2)
    wanted, again = (trained(scene, in_place, True) for _ in range(2))
    off = lambda found: max(map(relative_l2, found, wanted))
    most = 0 if backward == "gather" else 1e-7
    assert off(again) <= most
    for _ in range(5):
        assert off(trained(scene, in_place, False)) <= most


def test_cameras_on_the_gpu_are_those_of_the_host():
    scene = random_scene(8, 2_000, 64, 48, 1)
    given = tensors(scene)
    images = [
        rasterization(*given, *cameras(scene, 0.0, 0.3, where=where), 64, 48, sh_degree=1)[0]
        for where in ("cuda", "cpu", "cuda")
    ]
    assert torch.equal(images[0], images[2]) and (images[0] - images[1]).abs().max() < 1e-4
    viewmats, Ks = cameras(scene)
    with pytest.raises(ValueError, match="rigid"):  # from this call or the next
        rasterization(*given, 2 * viewmats, Ks, 64, 48, sh_degree=1)
        torch.cuda.synchronize()
        rasterization(*given, viewmats, Ks, 64, 48, sh_degree=1)
    rasterization(*given, viewmats, Ks, 64, 48, sh_degree=1)

"""Trains a scene with PyTorch's optimizer and a loss of its own: the L1 loss of hardsplat, plus a
wish for flat splats.

python examples/custom_loss.py scenes/courtyard splats.ply
"""

import argparse

import numpy as np
import torch

import hardsplat
from hardsplat.torch import rasterization


def draw(splats: dict[str, torch.Tensor], camera: hardsplat.Camera) -> torch.Tensor:
    """(H, W, 3)."""
    w2c, K = (torch.tensor(matrix, dtype=torch.float32)[None] for matrix in (camera.w2c, camera.K))
    drawn = (
        splats["means"],
        splats["quats"],
        splats["log_scales"].exp(),
        splats["logits"].sigmoid(),
        splats["sh"],
    )
    colors, _, _ = rasterization(*drawn, w2c, K, camera.width, camera.height, sh_degree=1)
    return colors[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scene")
    parser.add_argument("ply")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    flags = parser.parse_args()

    scene = hardsplat.load_scene(flags.scene)
    start = hardsplat.Gaussians.from_points(scene.points, scene.colors, sh_degree=1)
    values = {
        "means": start.means,
        "quats": start.quats,
        "log_scales": start.log_scales,
        "logits": start.logit_opacities,
        "sh": start.sh,
    }
    splats = {
        name: torch.tensor(value, device=flags.device, requires_grad=True)
        for name, value in values.items()
    }
    rates = {
        "means": 1.6e-4 * scene.extent,
        "quats": 1e-3,
        "log_scales": 5e-3,
        "logits": 5e-2,
        "sh": 2.5e-3,
    }
    optimizer = torch.optim.Adam(
        [{"params": [splats[name]], "lr": rate} for name, rate in rates.items()], eps=1e-15
    )
    photos = [
        torch.from_numpy(view.load()[..., :3]).to(flags.device).float() / 255
        for view in scene.views
    ]

    order = np.random.default_rng(0).choice(scene.train, flags.steps)
    for step, i in enumerate(order, 1):
        loss = (draw(splats, scene.views[i].camera) - photos[i]).abs().mean()
        # the loss of your own
        flatness = splats["log_scales"].exp().amin(dim=1).mean() / scene.extent
        optimizer.zero_grad()
        (loss + 0.1 * flatness).backward()
        optimizer.step()
        if step % 100 == 0 or step == flags.steps:
            print(f"step {step}: loss {loss.item():.4f}")

    with torch.no_grad():
        errors = [
            ((draw(splats, scene.views[i].camera).clamp(0, 1) - photos[i]) ** 2).mean().item()
            for i in scene.test
        ]
        trained = {name: value.cpu().numpy() for name, value in splats.items()}
    print(f"held out: PSNR {np.mean(-10 * np.log10(errors)):.2f} dB")
    scales, opacities = np.exp(trained["log_scales"]), 1 / (1 + np.exp(-trained["logits"]))
    means, quats, sh = (trained[name] for name in ("means", "quats", "sh"))
    hardsplat.save_splats(flags.ply, hardsplat.Gaussians(means, quats, scales, opacities, sh))


if __name__ == "__main__":
    main()

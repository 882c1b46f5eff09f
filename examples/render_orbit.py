"""Draws splats from cameras around them and writes a GIF.

python examples/render_orbit.py results/garden/splats.ply orbit.gif
"""

import argparse

import numpy as np
from PIL import Image

import hardsplat


def cameras_around(
    gaussians: hardsplat.Gaussians, views: int, size: tuple[int, int]
) -> list[hardsplat.Camera]:
    """Cameras in a circle around the middle of the splats, -y up as in COLMAP's scenes."""
    middle = np.median(gaussians.means, axis=0)
    away = 2.5 * np.quantile(np.linalg.norm(gaussians.means - middle, axis=1), 0.8)
    width, height = size
    K = [[width, 0, width / 2], [0, width, height / 2], [0, 0, 1]]  # 53 degrees wide
    found = []
    for angle in np.linspace(0, 2 * np.pi, views, endpoint=False):
        ahead = np.array(
            [np.sin(angle), 0.3, np.cos(angle)]
        )  # y points down: the camera looks a little down, too
        ahead /= np.linalg.norm(ahead)
        right = np.cross([0, 1, 0], ahead)
        right /= np.linalg.norm(right)
        w2c = np.eye(4)
        w2c[:3, :3] = right, np.cross(ahead, right), ahead
        w2c[:3, 3] = -w2c[:3, :3] @ (middle - away * ahead)
        found.append(hardsplat.Camera(w2c, K, width, height))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("splats", help="file of splats")
    parser.add_argument("gif")
    parser.add_argument("--views", type=int, default=60)
    parser.add_argument("--size", type=int, nargs=2, default=(640, 480))
    flags = parser.parse_args()

    gaussians = hardsplat.load_splats(flags.splats)
    filtered = hardsplat.is_antialiased(flags.splats)
    with hardsplat.Renderer(antialiased=filtered) as renderer:
        images, _ = renderer.forward(
            gaussians, cameras_around(gaussians, flags.views, flags.size), background=(1, 1, 1)
        )
    frames = [Image.fromarray((image.clip(0, 1) * 255).astype(np.uint8)) for image in images]
    frames[0].save(
        flags.gif, save_all=True, append_images=frames[1:], duration=4000 // len(frames), loop=0
    )
    print(f"{len(frames)} frames in {flags.gif}")


if __name__ == "__main__":
    main()

"""Fits one photograph with 2D Gaussians and shows how the PSNR rises with their number.

python examples/fit_photograph.py photo.jpg
"""

import argparse

import hardsplat


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("photograph")
    parser.add_argument("--blobs", type=int, nargs="+", default=[1000, 4000, 16000])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--folder", default="results/fit")
    flags = parser.parse_args()

    for blobs in flags.blobs:
        fitted = hardsplat.fit(
            flags.photograph,
            blobs=blobs,
            max_steps=flags.steps,
            result_dir=f"{flags.folder}/{blobs}",
            quiet=True,
        )
        print(f"{blobs} blobs: {fitted.psnr:.2f} dB, {fitted.folder}/reconstruction.png")


if __name__ == "__main__":
    main()

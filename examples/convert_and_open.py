"""Writes splats in another format and as a page that shows them, and opens the page in a browser.

python examples/convert_and_open.py results/garden garden.spz
"""

import argparse
import webbrowser
from pathlib import Path

import hardsplat


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("result", help="result folder of a training, or a file of splats")
    parser.add_argument("target", help="file to write, by its ending, as hardsplat convert")
    parser.add_argument("--max-splats", type=int, help="keep the most important ones")
    flags = parser.parse_args()

    done = hardsplat.convert(
        flags.result, flags.target, max_splats=flags.max_splats, overwrite=True, quiet=True
    )
    print(
        f"{flags.target}: {done.written} splats, {done.size / 1e6:.2f} MB where there "
        f"were {done.size_before / 1e6:.2f}"
    )
    page = Path(flags.target).with_suffix(".html").absolute()
    hardsplat.export(flags.result, page, max_splats=flags.max_splats)
    webbrowser.open(page.as_uri())


if __name__ == "__main__":
    main()

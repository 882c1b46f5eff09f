"""Where the files beside the code are: in the package of a wheel, or at the top of a checkout."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = PACKAGE.parents[1]


def _folder(name: str) -> Path:
    shipped = PACKAGE / name
    return shipped if shipped.is_dir() else CHECKOUT / name


SHADERS = _folder("shaders")
CONFIGS = _folder("configs")
SPIRV = PACKAGE / "spirv"  # compiled when the wheel was built; absent in a checkout

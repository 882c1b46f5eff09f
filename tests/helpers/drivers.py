"""A second implementation of Vulkan on the CPU: SwiftShader, which Chromium brings along."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.helpers import needs
from tests.helpers.devtools import NAMES

LIBRARY = "libvk_swiftshader.so"


def _library() -> Path | None:
    """Returns HARDSPLAT_SWIFTSHADER, or one beside an installed or fetched Chromium."""
    given = os.environ.get("HARDSPLAT_SWIFTSHADER")
    named = [Path(given)] if given else []
    browsers = [Path(path).resolve().parent / LIBRARY for path in map(shutil.which, NAMES) if path]
    fetched = sorted(Path.home().glob(f".cache/ms-playwright/*/chrome-linux*/{LIBRARY}"))
    places = (*named, *browsers, Path("/usr/lib/chromium") / LIBRARY, *fetched)
    return next((path for path in places if path.is_file()), None)


def only_swiftshader(folder: Path) -> dict[str, str]:
    """The environment in which SwiftShader is the only device. folder: for its manifest."""
    if (found := _library()) is None:
        pytest.skip(needs.lacking(f"no {LIBRARY}, which Chromium brings"))
    manifest = folder / "swiftshader.json"
    driver = {"library_path": str(found), "api_version": "1.3.0"}
    manifest.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": driver}))
    return dict.fromkeys(("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), str(manifest))

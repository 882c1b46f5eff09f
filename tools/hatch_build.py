"""Hatchling's hook for the wheel: adds the shaders, their SPIR-V and the presets to the package. An
editable install reads the checkout."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelHook(BuildHookInterface):
    def initialize(self, version, build_data):
        if version == "editable":
            return
        self._spirv = tempfile.TemporaryDirectory()
        if subprocess.run(
            [sys.executable, "-m", "tools.catalog", self._spirv.name],
            cwd=self.root,
            env=os.environ | {"PYTHONPATH": str(Path(self.root, "app"))},
        ).returncode:
            raise SystemExit(
                "hardsplat: the shaders of the wheel could not be compiled, for the reason above"
            )
        root = Path(self.root)
        folders = {
            root / "shaders": "hardsplat/shaders",
            root / "configs": "hardsplat/configs",
            self._spirv.name: "hardsplat/spirv",
        }
        build_data["force_include"].update(
            {str(source): target for source, target in folders.items()}
        )

    def finalize(self, version, build_data, artifact_path):
        if version != "editable":
            self._spirv.cleanup()

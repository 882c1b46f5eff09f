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
        self._spirv, root = tempfile.TemporaryDirectory(), Path(self.root)
        # an isolated build may have its requirements on that path alone
        given = filter(None, [os.environ.get("PYTHONPATH")])
        path = os.pathsep.join([str(root / "app"), *given])
        command = [sys.executable, "-m", "tools.catalog", self._spirv.name]
        if subprocess.run(command, cwd=root, env=os.environ | {"PYTHONPATH": path}).returncode:
            why = "for the reason above"
            raise SystemExit(f"hardsplat: the shaders of the wheel could not be compiled, {why}")
        folders = {
            str(root / "shaders"): "hardsplat/shaders",
            str(root / "configs"): "hardsplat/configs",
            self._spirv.name: "hardsplat/spirv",
        }
        build_data["force_include"].update(folders)

    def finalize(self, version, build_data, artifact_path):
        if version != "editable":
            self._spirv.cleanup()

"""Hatchling's hook for the wheel: adds the shaders, their SPIR-V and the presets to the package. An
editable install reads the checkout."""

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
        # not by PYTHONPATH: pip's isolated build takes away what an editable install names, too
        run = f"import sys, runpy; sys.path.insert(0, {str(root / 'app')!r}); "
        run += "runpy.run_module('tools.catalog', run_name='__main__')"
        if subprocess.run([sys.executable, "-c", run, self._spirv.name], cwd=root).returncode:
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

"""The examples of CONTRIBUTING, which tests build and train."""

import re
import textwrap

from tools.words import ROOT


def example(said: str) -> str:
    """The GLSL that has these words."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    blocks = re.findall(r"^ *```glsl\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    (found,) = (block for block in blocks if said in block)
    return textwrap.dedent(found)

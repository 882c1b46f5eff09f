"""Commands that draw, with every choice of every flag, on SwiftShader; pairs elsewhere."""

import pytest

from tests.usage.cases import cover_choices

# the others draw nothing, or what training and its measurements draw (test_train.py)
DRAWING = "render clean mesh fit fit-mesh".split()


@pytest.mark.parametrize("driver", ["swiftshader"], indirect=True, scope="module")
@pytest.mark.parametrize("command", DRAWING)
def test_every_choice(start, given, command, in_small, driver):
    cover_choices(command, start, given, pairs=False)

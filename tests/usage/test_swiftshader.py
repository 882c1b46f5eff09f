"""Training and commands that draw, with every choice of every flag, on SwiftShader."""

import pytest

from tests.usage.cases import cover_choices, cover_training

# the others draw nothing, or what training and its measurements draw; pairs are on the first driver
DRAWING = "render clean mesh fit fit-mesh".split()
on_swiftshader = pytest.mark.parametrize("driver", ["swiftshader"], indirect=True, scope="module")


@on_swiftshader
def test_every_choice_of_train(trained, opened, driver):
    cover_training(trained, opened)


@on_swiftshader
@pytest.mark.parametrize("command", DRAWING)
def test_every_choice(start, given, command, in_small, driver):
    cover_choices(command, start, given, pairs=False)

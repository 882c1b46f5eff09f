"""Tables of test cases as text, a case a line, command lines, and what is refused."""

import re

import pytest

from hardsplat.base.errors import UserError
from hardsplat.tables import quantities

COMMON = quantities.values()  # what is trained of splats


def rows(text: str) -> list[tuple[str, ...]]:
    """Returns a tuple of cells for each line; " | " separates cells."""
    lines = (line.strip() for line in text.strip().splitlines())
    return [tuple(cell.strip() for cell in line.split(" | ")) for line in lines]


def argv(*parts) -> list[str]:
    """Returns the words of a command line: strings hold several, anything else is one."""
    words = (part.split() if isinstance(part, str) else [str(part)] for part in parts)
    return [word for some in words for word in some]


def refusal(action, *given, **named) -> str:
    """Returns the one line of the UserError that an action raises."""
    with pytest.raises(UserError) as caught:
        action(*given, **named)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def refuses(words: str, action, *given, **named) -> None:
    """Asserts that the line of the UserError of an action has these words, a regular expression."""
    assert re.search(words, said := refusal(action, *given, **named)), said

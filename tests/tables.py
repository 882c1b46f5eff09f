"""Tables of test cases as text, a case a line."""


def rows(text: str) -> list[tuple[str, ...]]:
    """Returns a tuple of cells for each line; " | " separates cells."""
    lines = (line.strip() for line in text.strip().splitlines())
    return [tuple(cell.strip() for cell in line.split(" | ")) for line in lines]

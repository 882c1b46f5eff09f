"""How many pixels one fragment of the backward draw stands for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    width: int
    height: int
    needs: tuple[str, ...]  # besides the section_needs of the ordering
    note: str

    @property
    def pixels(self) -> int:
        return self.width * self.height


BLOCKS = {
    "2x2": Block(2, 2, (), "four pixels a fragment, summed in registers, ordered once; with lists, interlock, or on a CPU"),
    "4x2": Block(4, 2, (), "eight pixels a fragment: where compute is worth more than drawing"),
    "1x1": Block(1, 1, (), "a fragment a pixel (as published)"),
}

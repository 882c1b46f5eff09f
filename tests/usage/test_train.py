"""`hardsplat train` with every choice of every flag, and with every pair of two choices."""

from hardsplat.study.variants import REGISTRIES, option_of
from tests.helpers.offered import Item, cover
from tests.usage.cases import cover_training, flags_of_train


def tabled(flags: dict[str, list[Item]]) -> list[str]:
    """Those flags that choose rows of the tables of variants, which may go together or not."""
    rows = {option_of(flag or "") for _, flag, _ in REGISTRIES}
    return [name for name in flags if name in rows | {"rasterizer", "state_format", "strategy"}]


def test_every_choice(trained, opened):
    """With the tables' pairs."""
    cover_training(trained, opened, tabled(flags_of_train()))


def test_every_pair_of_choices(trained, everything):
    flags = flags_of_train()
    cover(flags, trained, flags)

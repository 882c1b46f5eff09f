"""A setting is a field of a dataclass, its owner: default, help, unit and limits. Values that the
user gives are checked against it. Owners are nested."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, TypeVar, get_args, get_origin

from hardsplat.base.errors import UserError

T = TypeVar("T")

_WANTED = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    tuple[int, ...]: "a list of whole numbers",
    tuple[float, ...]: "a list of numbers",
    tuple[str, ...]: "a list of texts",
}


def option(
    default: T,
    help: str,
    *,
    unit: str = "",
    choices: Sequence[str] = (),
    min: float = 0,
    max: float = 2**32 - 1,
    shown: str | None = None,
    aka: str = "",
    scales: int | None = None,
) -> T:
    """A field with all that flags, checks and help need. Numbers end up in 32-bit words of the GPU.

    shown: what help prints as the default where the value alone says too little. aka: names that
    it had, or that the Inria trainer and Brush use for it, offered when the user types one of
    those. scales: the value is a step of a run of max_steps; in a longer or shorter run it is as
    much later or earlier, but no earlier than this.
    """
    limits, names = dict(choices=choices, min=min, max=max), tuple(aka.split())
    text = dict(help=help, unit=unit, shown=shown, aka=names)
    return field(default=default, metadata=text | limits | dict(scales=scales))


def flag(name: str) -> str:
    """The flag of a setting, as users type it."""
    return "--" + name.replace("_", "-")


# options by what their number is: a step of a run, a rate that decays exponentially, a share of a
# whole, a weight in the loss
steps: Callable[..., int] = partial(option, unit="steps")
rate: Callable[..., float] = partial(option, min=1e-15)
share: Callable[..., float] = partial(option, max=1)
weight: Callable[..., float] = partial(option, max=1e6)


def variant(registry: Iterable[str], help: str, auto: str = "the fastest here") -> str:
    """The choice of one row of a registry in app/hardsplat/tables."""
    return option("auto", f"{help}; auto: {auto}", choices=("auto", *registry))


def kind(f: Field) -> Any:
    """The field's type without its `| None`."""
    return get_args(f.type)[0] if isinstance(f.type, UnionType) else f.type


def checked(name: str, value: Any, where: str, fields: Mapping[str, Field]) -> Any:
    """`value` as the field's type, within its limits. UserError starts with `where`: the file and
    key, or the flag."""
    f = fields[name]
    if value is None and f.default is None:
        return None
    choices, low, high = (f.metadata[key] for key in ("choices", "min", "max"))
    wanted = f"one of {', '.join(choices)}" if choices else _WANTED[kind(f)]
    try:
        result = _converted(kind(f), value)
        if choices and result not in choices:
            raise TypeError
        numbers = result if isinstance(result, tuple) else [result]
        for number in (n for n in numbers if isinstance(n, int | float)):
            if not low <= number <= high:  # so NaN fails too
                wanted += f" of at most {high}" if number > high else f" of at least {low}"
                raise TypeError
    except (TypeError, OverflowError):
        raise UserError(f"{where}: expected {wanted}, got {value!r}") from None
    return result


def _converted(kind, value):
    """`value` as `kind` where TOML or JSON spells it differently; TypeError where it is something
    else."""
    if kind is float and type(value) is int:
        return float(value)
    if kind is str and type(value) is int:  # device = 0
        return str(value)
    if kind is Path and isinstance(value, str | Path) and str(value):
        return Path(value).expanduser()
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        return tuple(_converted(get_args(kind)[0], item) for item in value)
    if type(value) is not kind:  # not isinstance: True is no number here
        raise TypeError
    return value


def check_known(settings: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """UserError for an unknown setting. names: as NAMES."""
    for name in settings:
        if names.get(name) != name:
            raise UserError(f"unknown setting '{name}'{nearest(name, names)}")


def nearest(word: str, names: Mapping[str, str]) -> str:
    """`; did you mean 'x'?` for the closest of `names` (each mapped to the name to offer), or
    nothing where none is close."""
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"; did you mean '{names[close[0]]}'?" if close else ""


def part(owner: type[T]) -> T:
    """A field that holds another owner."""
    return field(default_factory=owner)


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Base of all owners. The docstring of each is its title in help.

    flag, values: the setting that chooses the owner, and its values that do; without a flag every
    run has it. Raises UserError for a value of the wrong type or out of range.
    """

    flag: ClassVar[str] = ""
    values: ClassVar[tuple[str | bool, ...]] = ()

    def __post_init__(self):
        known = self.options()
        for name in known:
            object.__setattr__(self, name, checked(name, getattr(self, name), name, known))

    @classmethod
    def chosen(cls, settings: Mapping[str, Any]) -> bool:
        """Whether a run of these settings, all of them by name, looks at those of the owner."""
        return not cls.flag or settings[cls.flag] in cls.values

    @classmethod
    def options(cls) -> dict[str, Field]:
        """Settings of its own, by name."""
        return {f.name: f for f in fields(cls) if f.metadata}

    @classmethod
    def parts(cls) -> dict[str, type["Owner"]]:
        """Owners that it holds, by name."""
        held = [f for f in fields(cls) if f.default_factory is not MISSING and not f.metadata]
        return {f.name: f.default_factory for f in held}  # type: ignore[misc]

    @classmethod
    def owners(cls) -> Iterator[type["Owner"]]:
        """Itself and all that it holds, in the order of help."""
        yield cls
        for owner in cls.parts().values():
            yield from owner.owners()

    @classmethod
    def made(cls, values: Mapping[str, Any]):
        """The owner with its share of settings by name, defaults where they are missing."""
        own = {name: values[name] for name in cls.options() if name in values}
        return cls(**own, **{name: owner.made(values) for name, owner in cls.parts().items()})

    def flat(self) -> dict[str, Any]:
        """All settings in it, by name."""
        found = {name: getattr(self, name) for name in self.options()}
        for name in self.parts():
            found |= getattr(self, name).flat()
        return found

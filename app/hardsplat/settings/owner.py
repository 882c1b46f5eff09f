"""An owner is a dataclass of settings that one part of the program looks at. Owners are nested."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, TypeVar

from hardsplat.settings.option import checked

T = TypeVar("T")


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

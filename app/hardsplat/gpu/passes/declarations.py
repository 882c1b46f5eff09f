"""What a pass declares against what its shaders do, by reflection of their SPIR-V."""

from __future__ import annotations

from hardsplat import contract
from hardsplat.gpu.passes.declared import ComputePass, DrawPass, PassError
from hardsplat.gpu.passes.reflect import Binding, Reflection
from hardsplat.tables import quantities

# What shaders open to go through planes of any quantity: which names those may have.
_ANY = {
    "any_value": quantities.values,
    "any_moment": quantities.moments,
    "any_average": quantities.averages,
    "any_gradient": lambda kind: quantities.gradients(kind, stored=True),
}


def check(owner: ComputePass | DrawPass, stages: list[tuple[str, Reflection]]) -> dict[int, str]:
    """Compares declaration and SPIR-V; returns descriptor kinds by binding."""
    kinds: dict[int, str] = {}
    reads: set[str] = set()
    writes: set[str] = set()
    for path, info in stages:
        where = f"pass {owner.name}, {path}:"
        for binding, b in info.bindings.items():
            name = contract.BINDINGS.get(binding)
            if name is None:
                raise PassError(f"{where} binding {binding} is not in the contract")
            _check_layout(f"{where} {name}", name, b)
            if (other := kinds.setdefault(binding, b.kind)) != b.kind:
                both = f"{name} is {other} in one stage and {b.kind} in {path}"
                raise PassError(f"pass {owner.name}: {both}")
            if name != "planes":  # holds addresses: what a pass reads and writes are the planes
                reads |= {name} if b.reads else set()
                writes |= {name} if b.writes else set()
        for opened, (read, written) in info.planes.items():
            if not (names := _planes(opened)):
                what = f"{opened} is not a trained quantity, nor its gradient"
                raise PassError(f"{where} {what}")
            reads |= _opened(names, owner.reads) if read else set()
            writes |= _opened(names, owner.writes) if written else set()
    if isinstance(owner, DrawPass):
        also_read, also_written = _attached(owner)
        reads |= also_read
        writes |= also_written
    for what, actual in (("reads", reads), ("writes", writes)):
        if (declared := set(getattr(owner, what))) != actual:
            paths = " + ".join(path for path, _ in stages)
            raise PassError(
                f"pass {owner.name}, {paths}: declared {what} {sorted(declared)}, the "
                f"shader {what} {sorted(actual)}"
                f" (missing {sorted(actual - declared)}, extra {sorted(declared - actual)})"
            )
    known = set().union(*(info.spec_ids for _, info in stages))
    for name in owner.spec:
        if name not in known:
            there = f"there are {sorted(known) or 'none'}"
            raise PassError(f"pass {owner.name}: no specialization constant {name}; {there}")
    return kinds


def _planes(opened: str) -> set[str]:
    """The names that a shader may mean by what it opened, none where the trained table has not
    got it."""
    if opened in _ANY:
        return {name for kind in quantities.ORDER for name in _ANY[opened](kind)}
    return {opened} & set().union(*map(_planes, _ANY))


def _opened(names: set[str], declared: tuple[str, ...]) -> set[str]:
    """What a shader reads or writes of planes with one of `names`: those that are declared where
    it goes through any of several."""
    return names if len(names) == 1 else names & set(declared)


def _attached(owner: DrawPass) -> tuple[set[str], set[str]]:
    """What a draw reads and writes by its attachments."""
    reads, writes = set(), set()
    if owner.attachment:
        aliases = (name for name, actual in owner.bind.items() if actual == owner.attachment)
        writes.add(alias := next(aliases, owner.attachment))
        if owner.blend or owner.clear is None:
            reads.add(alias)
    if depth := owner.depth:
        reads |= {depth.image} if depth.clear is None else set()
        writes |= {depth.image} if depth.writes else set()
    return reads, writes


def _check_layout(where: str, name: str, b: Binding) -> None:
    """Compares how a shader opens a resource with the contract. Raises PassError that begins with
    `where`."""
    spec = contract.BUFFERS.get(name)  # None for an image
    expected_kind = "image" if spec is None else "uniform" if spec.uniform else "buffer"
    if (b.kind if b.kind in ("buffer", "uniform") else "image") != expected_kind:
        raise PassError(f"{where} is in the contract as {expected_kind}, in the shader as {b.kind}")
    if spec is None:
        return
    size = contract.itemsize(name)
    if b.stride not in (None, size):
        raise PassError(f"{where} has {size} bytes an element, the shader {b.stride}")
    expected = contract.layout(name)
    if b.layout != expected:
        differ = (pair for pair in zip(expected, b.layout) if pair[0] != pair[1])
        ours, theirs = next(differ, (len(expected), len(b.layout)))
        what = f"{spec.type} has {ours} where the shader has {theirs}"
        raise PassError(f"{where}: {what} (member, byte)")

"""What a pass declares against what its shaders do, by reflection of their SPIR-V."""

from __future__ import annotations

from hardsplat import contract
from hardsplat.gpu.passes.declared import ComputePass, DrawPass, PassError
from hardsplat.gpu.passes.reflect import Binding, Reflection
from hardsplat.tables import quantities


def check(owner: ComputePass | DrawPass, stages: list[tuple[str, Reflection]]) -> dict[int, str]:
    """Compares declaration and SPIR-V; returns descriptor kinds by binding."""
    kinds: dict[int, str] = {}
    reads, writes = set(), set()
    for path, info in stages:
        for binding, b in info.bindings.items():
            name = contract.BINDINGS.get(binding)
            if name is None:
                raise PassError(
                    f"pass {owner.name}, {path}: binding {binding} is not in the contract"
                )
            _check_layout(f"pass {owner.name}, {path}: {name}", name, b)
            if kinds.setdefault(binding, b.kind) != b.kind:
                raise PassError(
                    f"pass {owner.name}: {name} is {kinds[binding]} in one stage and "
                    f"{b.kind} in {path}"
                )
            if (
                name != "planes"
            ):  # which holds addresses: what a pass reads and writes are the planes
                reads |= {name} if b.reads else set()
                writes |= {name} if b.writes else set()
        for opened, (read, written) in info.planes.items():
            names = _planes(opened, owner)
            if names is None:
                raise PassError(
                    f"pass {owner.name}, {path}: {opened} is not a trained quantity, nor "
                    "its gradient"
                )
            reads |= (
                names & set(owner.reads) if opened in _ANY and read else names if read else set()
            )
            writes |= (
                names & set(owner.writes)
                if opened in _ANY and written
                else names
                if written
                else set()
            )
    if isinstance(owner, DrawPass) and owner.attachment:
        alias = next(
            (name for name, actual in owner.bind.items() if actual == owner.attachment),
            owner.attachment,
        )
        writes.add(alias)
        if owner.blend or owner.clear is None:
            reads.add(alias)
    if isinstance(owner, DrawPass) and (depth := owner.depth):
        reads |= {depth.image} if depth.clear is None else set()
        writes |= {depth.image} if depth.writes else set()
    for what, declared, actual in (
        ("reads", set(owner.reads), reads),
        ("writes", set(owner.writes), writes),
    ):
        if declared != actual:
            paths = " + ".join(path for path, _ in stages)
            raise PassError(
                f"pass {owner.name}, {paths}: declared {what} {sorted(declared)}, the "
                f"shader {what} {sorted(actual)}"
                f" (missing {sorted(actual - declared)}, extra {sorted(declared - actual)})"
            )
    known = set().union(*(info.spec_ids for _, info in stages))
    for name in owner.spec:
        if name not in known:
            raise PassError(
                f"pass {owner.name}: no specialization constant {name}; there are "
                f"{sorted(known) or 'none'}"
            )
    return kinds


# What shaders open to go through planes whatever they hold: which of the declared names those may
# be.
_ANY = {
    "any_value": quantities.values,
    "any_moment": quantities.moments,
    "any_average": quantities.averages,
    "any_gradient": lambda kind: quantities.gradients(kind, stored=True),
}


def _planes(opened: str, owner: ComputePass | DrawPass) -> set[str] | None:
    """The names that a shader may mean by what it opened; None for what is not in the trained
    table."""
    if opened in _ANY:
        return {name for kind in quantities.ORDER for name in _ANY[opened](kind)}
    known = {name for names in _ANY.values() for kind in quantities.ORDER for name in names(kind)}
    return {opened} if opened in known else None


def _check_layout(where: str, name: str, b: Binding) -> None:
    """Compares how a shader opens a resource with the contract. Raises PassError that begins with
    `where`."""
    spec = contract.BUFFERS.get(name)  # None for an image
    if (spec is not None) != (b.kind in ("buffer", "uniform")) or (
        spec and spec.uniform != (b.kind == "uniform")
    ):
        kind = "uniform" if spec and spec.uniform else "buffer" if spec else "image"
        raise PassError(f"{where} is in the contract as {kind}, in the shader as {b.kind}")
    if spec is None:
        return
    if b.stride is not None and b.stride != contract.itemsize(name):
        raise PassError(
            f"{where} has {contract.itemsize(name)} bytes an element, the shader {b.stride}"
        )
    expected = contract.layout(name)
    if b.layout != expected:
        ours, theirs = next(
            (pair for pair in zip(expected, b.layout) if pair[0] != pair[1]),
            (len(expected), len(b.layout)),
        )
        raise PassError(
            f"{where}: {spec.type} has {ours} where the shader has {theirs} (member, byte)"
        )

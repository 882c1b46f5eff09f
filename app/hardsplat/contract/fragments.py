"""Lists of fragments by block of pixels, in order of depth once they are sorted."""

from hardsplat.contract.layout import BufferSpec, Constant, Field, Subsystem

FRAGMENTS = Subsystem(
    "fragments",
    "lists of fragments by block of pixels and depth segment",
    constants={"NO_FRAGMENT": Constant(0xFFFFFFFF, "uint", "behind the last fragment of a list, and the rank of no splat")},
    structs={
        "FragmentList": (
            Field("first", "uint", "its first fragment in `fragments`: the one that came last, and the nearest once they are in order"),
            Field("seen", "float", "the largest transmittance of the block's pixels in front of the segment"),
        ),
        "Fragment": (
            Field("rank", "uint", "of its splat among the visible ones, nearest first"),
            Field("next", "uint", "the fragment behind it in the list"),
        ),
    },
    buffers=(
        BufferSpec(184, "fragment_lists", "FragmentList", ("segments", "pixels"), "a list for each block of each depth segment"),
        BufferSpec(185, "fragments", "Fragment", ("pairs",), "the fragments of all lists, as they came"),
    ),
    uses=("core",),
)

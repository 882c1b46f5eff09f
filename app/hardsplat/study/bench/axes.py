"""Settings that `hardsplat bench` may vary, and how formats are compared."""

from collections.abc import Mapping, Sequence

AXES = (  # settings of which it takes lists, in the order of its flags
    *"format state_format blending reduction hybrid_threshold ordering atomics block".split(),
    *"shape segments tile_backward tile_threshold moments rasterizer gradient".split(),
)

# rasterizer of a sweep that names none: it has the formats and reductions; auto may take another
# for each run
SWEPT = "hardware"


def blending_of(axes: Mapping[str, Sequence]) -> dict[str, str]:
    """The setting of blending where several formats are compared and it is not given: they
    differ in what the blending unit does in them."""
    return (
        {"blending": "fixed"} if len(axes.get("format", ())) > 1 and "blending" not in axes else {}
    )

// Keys by which splats are put in the order of a Z-shaped curve (Morton 1966), so that those which
// a view shows are contiguous in memory, mostly: nine bits of each coordinate interleaved.
// Coordinates are counted from the splat in the middle of memory, and squeezed the more the farther
// they are, so that none is beyond the curve.
#include "common.glsl"
#include "contract/trained.glsl"
#include "contract/refine.glsl"
#include "contract/sort.glsl"

layout(local_size_x = GROUP) in;
UNIFORM_planes
VALUE_means(readonly)
BUFFER_refine_settings(readonly)
BUFFER_counts(readonly)
BUFFER_keys(writeonly)

uvec3 spread(uvec3 v) {
    v = (v | v << 16u) & 0x030000FFu;
    v = (v | v << 8u) & 0x0300F00Fu;
    v = (v | v << 4u) & 0x030C30C3u;
    return (v | v << 2u) & 0x09249249u;
}

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats) return;
    vec3 away = (means(g) - means(counts.splats / 2u)) / max(refine_settings.extent, 1e-20);
    vec3 place = clamp(0.5 + 0.5 * away / (1.0 + abs(away)), 0.0, 1.0);
    uvec3 bits = spread(uvec3(place * 511.0));
    keys[g] =
        finite(vec4(place, 0.0)) ? bits.x | bits.y << 1u | bits.z << 2u : (1u << KEY_BITS) - 1u;
}

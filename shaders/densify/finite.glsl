// Whether every trained number of a splat is finite, of any kind.
#include "contract/trained.glsl"
UNIFORM_planes
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer any_value_plane {
    float at[];
};
#include "densify/values.glsl"

bool finite(uint g) {
    bool ok = true;
    for (uint p = 0u; p < planes.of_splats; ++p) {
        any_value_plane values = any_value_plane(planes.at[p].value);
        uint width = planes.at[p].width;  // 0 for a plane that this SH degree lacks
        for (uint c = 0u; c < width; ++c)
            ok = ok && (floatBitsToUint(values.at[width * g + c]) & EXPONENT) != EXPONENT;
    }
    return ok;
}

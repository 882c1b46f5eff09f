// <taken>: of the second draw: all but the splat that the sample saw in the first, which accepted none nearer.
#include "contract/samples.glsl"
NUMBERS_nearest(NUMBERS)

uint taken(uint accepting) {
    uint left = accepting;
    for (uint s = 0u; s < SAMPLES; ++s)
        if ((accepting >> s & 1u) != 0u && texelFetch(nearest, ivec2(gl_FragCoord.xy), int(s)).r == v_splat + 1u) left &= ~(1u << s);
    return left;
}

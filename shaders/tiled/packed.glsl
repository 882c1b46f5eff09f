// Splats as the tiles take them: alpha = exp2(peak - (A (dx + k dy)^2 + c dy^2)) before it is
// clamped, and cutoff is what is subtracted at ALPHA_MIN. Base 2 is what devices compute, so that a
// pixel takes no factor for it, nor for the opacity.
#include "contract/tiles.glsl"

const float FINITE = 1e18;  // colour whose products stay finite
const float PER_LOG2 = 0.5 / log(2.0);

TileSplat packed_splat(Splat2D s, vec4 color) {
    return TileSplat(vec4(s.mean, PER_LOG2 * s.conic.x, s.conic.y),
                     vec4(PER_LOG2 * s.conic.z, min(color.rgb, vec3(FINITE))));
}
TileReach packed_reach(float opacity, uint splat, uint first) {
    return TileReach(log2(opacity), max(log2(opacity / ALPHA_MIN), 0.0), splat, first);
}

float unclamped_alpha(float peak, vec2 d, vec3 conic) {
    float t = d.x + conic.y * d.y;
    // Squares, since the moments of the backward pass have them too.
    return exp2((peak - conic.z * (d.y * d.y)) - conic.x * (t * t));
}

// The inverse covariance that it was made of.
vec3 plain_conic(vec3 conic) { return vec3(conic.x / PER_LOG2, conic.y, conic.z / PER_LOG2); }

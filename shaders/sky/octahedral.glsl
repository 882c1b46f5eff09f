// The sky: texels in a square, which the octahedral map makes of all directions (Engelhardt &
// Dachsbacher, "Octahedron Environment Maps", 2008), read bilinearly. Edges go on on their other
// half, so there is no seam.
#include "projection.glsl"
#include <lens>

struct Corners {
    uint texel[4];
    float weight[4];
};

// In 0..1.
vec2 octahedral(vec3 d) {
    d /= abs(d.x) + abs(d.y) + abs(d.z);
    vec2 away = vec2(d.x < 0.0 ? -1.0 : 1.0, d.y < 0.0 ? -1.0 : 1.0);
    return 0.5 + 0.5 * (d.z < 0.0 ? (1.0 - abs(d.yx)) * away : d.xy);
}

uint texel_at(ivec2 at, int side) {
    if (at.x < 0 || at.x >= side) at = ivec2(clamp(at.x, 0, side - 1), side - 1 - at.y);
    if (at.y < 0 || at.y >= side) at = ivec2(side - 1 - at.x, clamp(at.y, 0, side - 1));
    return uint(at.y * side + at.x);
}

// What the pixel's ray shows.
Corners corners_of(Camera c, ivec2 pixel, int side) {
    vec3 direction = transpose(world_rotation(c)) * vec3(ratio_of(c, vec2(pixel) + 0.5), 1.0);
    vec2 at = octahedral(direction) * float(side) - 0.5, low = floor(at), f = at - low;
    Corners o;
    [[unroll]] for (int i = 0; i < 4; ++i) {
        ivec2 corner = ivec2(i % 2, i / 2);
        o.texel[i] = texel_at(ivec2(low) + corner, side);
        o.weight[i] = abs(1.0 - f.x - float(corner.x)) * abs(1.0 - f.y - float(corner.y));
    }
    return o;
}

int side_of(uint texels) { return int(sqrt(float(texels)) + 0.5); }

// <region> of densify/budget/tickets.comp: splats grow inside of a box and a sphere, and less
// likely outside. See app/hardsplat/model/region.py.
#include "contract/trained.glsl"
layout(constant_id = 50) const float REGION_UX = 1.0;
layout(constant_id = 51) const float REGION_UY = 0.0;
layout(constant_id = 52) const float REGION_UZ = 0.0;
layout(constant_id = 53) const float REGION_VX = 0.0;
layout(constant_id = 54) const float REGION_VY = 1.0;
layout(constant_id = 55) const float REGION_VZ = 0.0;
layout(constant_id = 56) const float REGION_WX = 0.0;
layout(constant_id = 57) const float REGION_WY = 0.0;
layout(constant_id = 58) const float REGION_WZ = 1.0;
layout(constant_id = 59) const float REGION_LOW_U = 0.0;
layout(constant_id = 60) const float REGION_LOW_V = 0.0;
layout(constant_id = 61) const float REGION_LOW_W = 0.0;
layout(constant_id = 62) const float REGION_HIGH_U = 0.0;
layout(constant_id = 63) const float REGION_HIGH_V = 0.0;
layout(constant_id = 64) const float REGION_HIGH_W = 0.0;
layout(constant_id = 65) const float REGION_CX = 0.0;
layout(constant_id = 66) const float REGION_CY = 0.0;
layout(constant_id = 67) const float REGION_CZ = 0.0;
layout(constant_id = 68) const float REGION_RADIUS = 0.0;
layout(constant_id = 69) const float REGION_OUTSIDE = 0.0;
UNIFORM_planes
VALUE_means(readonly)

float growth(uint g) {
    vec3 mean = means(g),
         place = vec3(dot(vec3(REGION_UX, REGION_UY, REGION_UZ), mean),
                      dot(vec3(REGION_VX, REGION_VY, REGION_VZ), mean),
                      dot(vec3(REGION_WX, REGION_WY, REGION_WZ), mean)),
         low = vec3(REGION_LOW_U, REGION_LOW_V, REGION_LOW_W),
         high = vec3(REGION_HIGH_U, REGION_HIGH_V, REGION_HIGH_W);
    bool inside = all(greaterThanEqual(place, low)) && all(lessThan(place, high)) &&
                  distance(mean, vec3(REGION_CX, REGION_CY, REGION_CZ)) < REGION_RADIUS;
    return inside ? 1.0 : REGION_OUTSIDE;
}

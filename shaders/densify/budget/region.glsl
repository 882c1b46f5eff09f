// <region> of densify/budget/tickets.comp: splats grow inside of an upright box alone. See
// app/hardsplat/model/region.py.
#include "contract/trained.glsl"
layout(constant_id = 50) const float REGION_UX = 1.0;
layout(constant_id = 51) const float REGION_UY = 0.0;
layout(constant_id = 52) const float REGION_UZ = 0.0;
layout(constant_id = 53) const float REGION_VX = 0.0;
layout(constant_id = 54) const float REGION_VY = 1.0;
layout(constant_id = 55) const float REGION_VZ = 0.0;
layout(constant_id = 56) const float REGION_LOW_U = 0.0;
layout(constant_id = 57) const float REGION_LOW_V = 0.0;
layout(constant_id = 58) const float REGION_HIGH_U = 0.0;
layout(constant_id = 59) const float REGION_HIGH_V = 0.0;
UNIFORM_planes
VALUE_means(readonly)

bool may_grow(uint g) {
    vec2 place = vec2(dot(vec3(REGION_UX, REGION_UY, REGION_UZ), means(g)),
                      dot(vec3(REGION_VX, REGION_VY, REGION_VZ), means(g)));
    return all(greaterThanEqual(place, vec2(REGION_LOW_U, REGION_LOW_V))) &&
           all(lessThan(place, vec2(REGION_HIGH_U, REGION_HIGH_V)));
}

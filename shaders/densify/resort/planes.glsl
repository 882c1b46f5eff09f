// The plane whose turn it is, one role after the other: values, first moments, second moments. What
// it holds goes through `moved`.
#include "contract/trained.glsl"
#include "contract/refine.glsl"
#include <moments>
UNIFORM_planes
BUFFER_turn(readonly)
layout(buffer_reference, scalar, buffer_reference_align = 4) restrict buffer any_value_plane {
    float at[];
};
layout(buffer_reference, scalar, buffer_reference_align = 2) restrict buffer any_moment_plane {
    MOMENT at[];
};

Plane plane = planes.at[turn[0] / 3u];
uint role = turn[0] % 3u;
any_moment_plane moments() { return any_moment_plane(role == 1u ? plane.first : plane.second); }

// A splat as it stands in memory: its numbers in all planes, and their Adam moments.
#include "contract/trained.glsl"
#include <moments>
UNIFORM_planes
layout(buffer_reference, scalar, buffer_reference_align = 4) restrict buffer any_value_plane {
    float at[];
};
#include "densify/values.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 2) restrict buffer any_moment_plane {
    MOMENT at[];
};

void put1(uint plane, uint g, float v) { any_value_plane(planes.at[plane].value).at[g] = v; }
void put3(uint plane, uint g, vec3 v) {
    any_value_plane values = any_value_plane(planes.at[plane].value);
    for (uint c = 0u; c < 3u; ++c) values.at[3u * g + c] = v[c];
}

void copy_values(uint from, uint to) {
    for (uint p = 0u; p < planes.of_splats; ++p) {
        any_value_plane values = any_value_plane(planes.at[p].value);
        uint width = planes.at[p].width;  // 0 for a plane that this SH degree lacks
        for (uint c = 0u; c < width; ++c) values.at[width * to + c] = values.at[width * from + c];
    }
}

void copy_moments(uint from, uint to) {
    for (uint p = 0u; p < planes.of_splats; ++p) {
        any_moment_plane first = any_moment_plane(planes.at[p].first),
                         second = any_moment_plane(planes.at[p].second);
        uint width = planes.at[p].width;
        for (uint c = 0u; c < width; ++c) {
            first.at[width * to + c] = first.at[width * from + c];
            second.at[width * to + c] = second.at[width * from + c];
        }
    }
}

void zero_moments(uint p, uint g) {
    any_moment_plane first = any_moment_plane(planes.at[p].first),
                     second = any_moment_plane(planes.at[p].second);
    uint width = planes.at[p].width;
    for (uint c = 0u; c < width; ++c)
        first.at[width * g + c] = second.at[width * g + c] = MOMENT(0u);
}
void zero_moments(uint g) {
    for (uint p = 0u; p < planes.of_splats; ++p) zero_moments(p, g);
}

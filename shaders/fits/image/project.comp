// One thread a blob -> Splat2D. One that is fainter than one step, is off the image or holds a
// number that is not finite gets a Splat2D that touches nothing.
#include "common.glsl"
#include "contract/fit.glsl"
#include "blob.glsl"

layout(local_size_x = GROUP) in;
BUFFER_blobs(readonly)
BUFFER_camera(readonly)
BUFFER_counts(readonly)
BUFFER_splats2d(writeonly)
BUFFER_colors2d(writeonly)

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats) return;
    splats2d[g] = Splat2D(vec2(-1e6), vec3(1.0, 0.0, 1.0), vec2(0.0), vec2(0.0));
    colors2d[g] = vec4(0.0);
    float v[BLOB];
    for (uint i = 0u; i < BLOB; ++i) v[i] = blobs[i * counts.capacity + g];
    Blob b = blob_of(v);
    float opacity = opacity_of(b);
    Projection o = project(b);
    if (!(opacity > ALPHA_MIN && o.det > 0.0)) return;
    vec2 axis1, axis2;
    quad_axes(o.cov, o.det, opacity, axis1, axis2);
    vec2 reach = abs(axis1) + abs(axis2);
    if (!(all(greaterThan(o.mean + reach, vec2(0.0))) &&
          all(lessThan(o.mean - reach, vec2(camera.size)))))
        return;
    vec3 conic = conic_of(o.cov, o.det);
    if (!finite(vec4(o.mean, o.det, opacity)) || !finite(vec4(conic, 0.0)) ||
        !finite(vec4(b.color, 0.0)) || !finite(vec4(axis1, axis2)))
        return;
    splats2d[g] = Splat2D(o.mean, conic, axis1, axis2);
    colors2d[g] = vec4(b.color, opacity);
}

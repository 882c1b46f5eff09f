// A pixel's loss in the + image minus that in the - image goes to what it saw in either of them,
// once: three vertices and four texels of each (Deliot, Heitz & Belcour 2024). What a parameter's
// sum is worth, fits/mesh/adam_*.comp know. A texel's channel only takes the difference of that
// channel: it changes no other, and the estimate is as unbiased and quieter.
#include "contract/mesh.glsl"
#include "mesh.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
BUFFER_camera(readonly)
BUFFER_corners(readonly)
BUFFER_photos(readonly)
BUFFER_mesh_losses(writeonly)
SAMPLED_ids
SAMPLED_ids_minus
#include "fits/mesh/texture.glsl"
#include "fits/mesh/sum.glsl"
#include <atomics>

// Of colour over black, and of the silhouette in w.
vec4 loss(vec4 pixel, vec4 photo) {
    vec4 d = pixel - photo;
    return vec4(vec3(1.0), mesh.alpha_weight) * d * d;
}

uint vertex_of(float id, int corner) { return corners[3u * (uint(id) - 1u) + uint(corner)].x; }

void add_vertices(vec4 ids_of, float difference) {
    uint seen[3] = uint[3](~0u, ~0u, ~0u);
    for (int side = 0; side < 2; ++side) {
        if (ids_of[side] == 0.0 || side == 1 && ids_of[0] == ids_of[1]) continue;
        for (int k = 0; k < 3; ++k) {
            uint v = vertex_of(ids_of[side], k);
            if (side == 0) seen[k] = v;
            else if (v == seen[0] || v == seen[1] || v == seen[2]) continue;
            add_gradient(v, difference);
        }
    }
}

// others: texels that have it already.
void add_texels(uvec4 texel, uvec4 others, vec3 difference) {
    for (int i = 0; i < 4; ++i) {
        uint x = texel[i];
        bvec4 before = lessThan(ivec4(0, 1, 2, 3), ivec4(i));  // taps at the border repeat
        if (any(equal(uvec4(x), others)) || any(equal(uvec4(x), mix(uvec4(~0u), texel, before))))
            continue;
        for (uint c = 0u; c < 3u; ++c) add_gradient(mesh.vertices + 3u * x + c, difference[c]);
    }
}

void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    vec4 sums = vec4(0.0);
    if (all(lessThan(at, camera.size))) {
        vec4 plus = texelFetch(ids, ivec2(at), 0), minus = texelFetch(ids_minus, ivec2(at), 0);
        bvec2 covered = bvec2(plus.w > 0.0, minus.w > 0.0);
        vec4 photo = unpackUnorm4x8(photos[camera.photo + at.y * camera.size.x + at.x]);
        float step = mesh.texel_step * share_left();
        Taps taps_plus = taps_at(plus.xy), taps_minus = taps_at(minus.xy);
        vec4 image_plus = covered.x ? vec4(albedo(taps_plus, step), 1.0) : vec4(0.0);
        vec4 image_minus = covered.y ? vec4(albedo(taps_minus, -step), 1.0) : vec4(0.0);
        vec4 loss_plus = loss(image_plus, photo), loss_minus = loss(image_minus, photo),
             difference = loss_plus - loss_minus;
        if (any(covered)) {
            float per_pixel = 1.0 / float(camera.size.x * camera.size.y);
            difference *= per_pixel;
            add_vertices(vec4(plus.w, minus.w, 0.0, 0.0), dot(difference, vec4(1.0)));
            if (covered.x) add_texels(taps_plus.texel, uvec4(~0u), difference.rgb);
            if (covered.y)
                add_texels(taps_minus.texel, covered.x ? taps_plus.texel : uvec4(~0u),
                           difference.rgb);
        }
        vec3 error = 0.5 * (image_plus + image_minus).rgb - photo.rgb;
        bool inside = photo.a > 0.5;
        sums = vec4(0.5 * dot(loss_plus + loss_minus, vec4(1.0)), dot(error, error) / 3.0,
                    inside && covered.x ? 1.0 : 0.0, inside || covered.x ? 1.0 : 0.0);
    }
    sums = sum_group(sums);
    if (gl_LocalInvocationIndex == 0u)
        mesh_losses[gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x] = sums;
}

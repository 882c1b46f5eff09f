// The estimate of every texel and an Adam step. Texels that the step did not see stay as they are,
// moments too.
#include "common.glsl"
#include "contract/mesh.glsl"
#include "mesh.glsl"
layout(local_size_x = GROUP) in;
BUFFER_texels(restrict)
BUFFER_mesh_sums(restrict)
BUFFER_adam_texels(restrict)
BUFFER_rates(readonly)
#include "optim/adam.glsl"

void main() {
    uint x = group_index() * GROUP + gl_LocalInvocationIndex,
         count = mesh.texture.x * mesh.texture.y, from = mesh.vertices + 3u * x;
    if (x >= count) return;
    vec3 sums = vec3(mesh_sums[from], mesh_sums[from + 1u], mesh_sums[from + 2u]),
         value = texels[x];
    if (sums == vec3(0.0)) return;
    for (uint c = 0u; c < 3u; ++c) mesh_sums[from + c] = 0.0;
    vec3 gradient = sums * texel_signs(x) / (2.0 * mesh.texel_step * share_left());
    vec3 m = adam_texels[x], v = adam_texels[count + x];
    adam(value, m, v, gradient, rates[RATE_TEXELS]);
    adam_texels[x] = m;
    adam_texels[count + x] = v;
    texels[x] = clamp(value, 0.0, 1.0);
}

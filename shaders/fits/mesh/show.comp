// The picture of the mesh as it is: colour over black, and coverage.
#include "contract/mesh.glsl"
#include "mesh.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
SAMPLED_ids
STORE_target
#include "fits/mesh/texture.glsl"

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    if (any(greaterThanEqual(at, textureSize(ids, 0)))) return;
    vec4 id = texelFetch(ids, at, 0);
    imageStore(target, at, id.w > 0.0 ? vec4(albedo(taps_at(id.xy), 0.0), 1.0) : vec4(0.0));
}

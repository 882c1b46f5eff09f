// One workgroup adds up mesh_losses into the record of this step.
#include "contract/mesh.glsl"
layout(local_size_x = GROUP) in;
BUFFER_mesh_losses(readonly)
BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_mesh_history(writeonly)
#include "fits/mesh/sum.glsl"

void main() {
    uint t = gl_LocalInvocationIndex;
    vec4 sums = vec4(0.0);
    for (uint i = t; i < uint(mesh_losses.length()); i += GROUP) sums += mesh_losses[i];
    sums = sum_group(sums);
    if (t == 0u) {
        float pixels = float(camera.size.x * camera.size.y);
        mesh_history[frame.step % HISTORY] =
            MeshRecord(sums.x / pixels, sums.y / pixels, sums.z / max(sums.w, 1.0));
    }
}

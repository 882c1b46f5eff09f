// The moments that a blob's pixels added up -> gradients of its nine numbers -> <sink>: stored, or
// taken by Adam.
#include "common.glsl"
#include "contract/fit.glsl"
#include "blob.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_colors2d(readonly)
BUFFER_d_splats2d(restrict)
#include <sink>

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats) return;
    float v[BLOB], m[GRADIENTS], d[BLOB];
    for (uint i = 0u; i < BLOB; ++i) {
        v[i] = blobs[i * counts.capacity + g];
        d[i] = 0.0;
    }
    for (uint i = 0u; i < GRADIENTS; ++i) {
        m[i] = d_splats2d[GRADIENT_STRIDE * g + i];
        d_splats2d[GRADIENT_STRIDE * g + i] = 0.0;  // left clean for the next frame
    }
    if (colors2d[g].a > 0.0) d = numbers_of(d_blob(blob_of(v), m));
    for (uint i = 0u; i < BLOB; ++i) sink(i, i * counts.capacity + g, v[i], d[i]);
}

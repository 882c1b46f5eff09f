// The estimate (L+ - L-) / (2 c sign) of every coordinate from its vertex' sum, an Adam step, and a
// share of the squared Laplacian taken away.
#include "common.glsl"
#include "contract/mesh.glsl"
#include "mesh.glsl"
layout(local_size_x = GROUP) in;
BUFFER_neighbours(readonly)
BUFFER_bends(readonly)
BUFFER_vertices(restrict)
BUFFER_mesh_sums(restrict)
BUFFER_adam_vertices(restrict)
BUFFER_rates(readonly)
#include "optim/adam.glsl"

// The gradient of half the sum of squared bends: a vertex bends itself by 1, each neighbour by -1
// over the number of theirs.
vec3 unbent(uint v) {
    vec3 sum = bends[v];
    for (uint i = neighbours[v]; i < neighbours[v + 1u]; ++i) {
        uint n = neighbours[i];
        sum -= bends[n] / float(neighbours[n + 1u] - neighbours[n]);
    }
    return sum;
}

void main() {
    uint v = group_index() * GROUP + gl_LocalInvocationIndex;
    if (v >= mesh.vertices) return;
    vec3 gradient = mesh_sums[v] * vertex_signs(v) / (2.0 * mesh.vertex_step * share_left()),
         at = vertices[v];
    mesh_sums[v] = 0.0;
    vec3 first = adam_vertices[v], second = adam_vertices[mesh.vertices + v];
    adam(at, first, second, gradient, rates[RATE_VERTICES]);
    adam_vertices[v] = first;
    adam_vertices[mesh.vertices + v] = second;
    vertices[v] = at - mesh.smoothing * rates[RATE_SHARE] * unbent(v);
}

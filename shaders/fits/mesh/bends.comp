// The uniform Laplacian: how far a vertex is from the mean of its neighbours.
#include "common.glsl"
#include "contract/mesh.glsl"
layout(local_size_x = GROUP) in;
BUFFER_mesh(readonly)
BUFFER_vertices(readonly)
BUFFER_neighbours(readonly)
BUFFER_bends(writeonly)

void main() {
    uint v = group_index() * GROUP + gl_LocalInvocationIndex;
    if (v >= mesh.vertices) return;
    uint begin = neighbours[v], end = neighbours[v + 1u];
    vec3 sum = vec3(0.0);
    for (uint i = begin; i < end; ++i) sum += vertices[neighbours[i]];
    bends[v] = vertices[v] - sum / float(max(end - begin, 1u));
}

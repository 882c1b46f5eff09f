// <gradient> of project/sink.comp: what project/backward.comp left of the visible splats.
BUFFER_d_geometry(readonly)
BUFFER_d_colors(readonly)

float geometry_of(uint g, uint i) { return d_geometry[i * counts.stride + g]; }
vec3 plane_of(uint k, uint g) { return sh_basis_of(k, d_colors[counts.stride + g]) * d_colors[g]; }

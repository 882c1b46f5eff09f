// <kept>: for pictures that have no backward pass.
void keep_nothing(uint g) {}
void keep(uint g, vec3 color, mat3 d_direction) {}

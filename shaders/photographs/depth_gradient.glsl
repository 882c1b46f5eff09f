// <depth> of project/backward.comp: what depth along the camera's axis adds to the gradient of the
// mean.
#include "contract/depth.glsl"
BUFFER_d_depths(readonly)
vec3 d_mean_of_depth(uint g) { return d_depths[g] * camera.world_to_camera[2].xyz; }

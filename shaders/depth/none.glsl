// <depth> of project/backward.comp: nothing is known of depth.
vec3 d_mean_of_depth(uint g) { return vec3(0.0); }

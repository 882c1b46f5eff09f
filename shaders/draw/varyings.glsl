// What a splat's outline carries to its fragments; the includer defines VARYING as in or out, and PER_VERTEX as [] in a mesh shader.
#ifndef PER_VERTEX
#define PER_VERTEX
#endif
layout(location = 0) VARYING flat vec2 v_mean PER_VERTEX;
layout(location = 1) VARYING flat vec3 v_conic PER_VERTEX;
layout(location = 2) VARYING flat vec3 v_color PER_VERTEX;
layout(location = 3) VARYING flat float v_opacity PER_VERTEX;
layout(location = 4) VARYING flat uint v_splat PER_VERTEX;
layout(location = 5) VARYING flat float v_top PER_VERTEX;  // rows of fragments above those of its segment

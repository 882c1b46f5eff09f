// What a splat's proxy geometry carries to its fragments; the includer defines VARYING as in or
// out.
layout(location = 0) VARYING flat vec2 v_mean;
layout(location = 1) VARYING flat vec3 v_conic;
layout(location = 2) VARYING flat vec3 v_color;
layout(location = 3) VARYING flat float v_opacity;
layout(location = 4) VARYING flat uint v_splat;
layout(location = 5) VARYING flat float v_top;  // rows of fragments above those of its segment

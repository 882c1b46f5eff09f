// The absolute error.
float l1_of(Compared c) { return dot(abs(c.x - c.y), vec3(1.0)); }
vec3 d_l1_of(Compared c) { return sign(c.x - c.y); }
float l1_difference(Compared c) { return dot(abs(c.x - c.y) - abs(c.minus - c.y), vec3(1.0)); }

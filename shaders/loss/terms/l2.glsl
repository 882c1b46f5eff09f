// The squared error.
float l2_of(Compared c) { return dot(c.x - c.y, c.x - c.y); }
vec3 d_l2_of(Compared c) { return 2.0 * (c.x - c.y); }
float l2_difference(Compared c) { return dot(c.x - c.minus, c.x + c.minus - 2.0 * c.y); }

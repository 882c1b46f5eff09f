// Response of a camera, channel by channel: an S of two powers that meet in the middle with one
// slope, then gamma (PPISP). All four are 1, 1, 1, 1/2 where what is trained is 0, which is the
// identity.
struct Response { vec3 toe, shoulder, gamma, middle; };

// The middle lies between OUTERMOST and 1 - OUTERMOST.
const float LEAST_CURVE = 0.3, LEAST_GAMMA = 0.1, OUTERMOST = 0.05;
// Softplus of them is 0.7 and 0.9.
const float CURVE_AT_0 = 0.01365900, GAMMA_AT_0 = 0.37816456;
// Below it powers go on as lines, so that their slope is finite.
const float FAINT = 1e-3;

vec3 softplus(vec3 x) { return max(x, 0.0) + log(1.0 + exp(-abs(x))); }
vec3 sigmoid(vec3 x) { return 1.0 / (1.0 + exp(-x)); }

Response response_of(vec3 toe, vec3 shoulder, vec3 gamma, vec3 middle) {
    return Response(LEAST_CURVE + softplus(toe + CURVE_AT_0),
                    LEAST_CURVE + softplus(shoulder + CURVE_AT_0),
                    LEAST_GAMMA + softplus(gamma + GAMMA_AT_0),
                    mix(vec3(OUTERMOST), vec3(1.0 - OUTERMOST), sigmoid(middle)));
}

vec3 power(vec3 x, vec3 p) {
    vec3 base = max(x, FAINT);
    return exp(p * log(base)) * (x / base);
}
// Derivatives by x and by p.
void d_power(vec3 x, vec3 p, out vec3 by_x, out vec3 by_p) {
    vec3 base = max(x, FAINT), slope = exp((p - 1.0) * log(base));
    by_x = mix(slope, p * slope, greaterThan(x, vec3(FAINT)));
    by_p = slope * x * log(base);
}

vec3 share_of_toe(Response r) { return r.shoulder * r.middle / mix(r.toe, r.shoulder, r.middle); }

vec3 curve(Response r, vec3 x) {
    vec3 a = share_of_toe(r);
    return mix(1.0 - (1.0 - a) * power((1.0 - x) / (1.0 - r.middle), r.shoulder),
               a * power(x / r.middle, r.toe), lessThanEqual(x, r.middle));
}

// x: in 0..1.
vec3 responded(Response r, vec3 x) { return power(curve(r, x), r.gamma); }

// Gradient by x, from that by the result; and by the four of the curve.
vec3 d_responded(Response r, vec3 x, vec3 d, out vec3 d_toe, out vec3 d_shoulder, out vec3 d_gamma,
                 out vec3 d_middle) {
    vec3 a = share_of_toe(r), both = mix(r.toe, r.shoulder, r.middle), by_x, by_p, by_y;
    d_power(curve(r, x), r.gamma, by_y, d_gamma);
    d_gamma *= d;
    d *= by_y;
    bvec3 low = lessThanEqual(x, r.middle);
    vec3 t = mix((1.0 - x) / (1.0 - r.middle), x / r.middle, low), p = mix(r.shoulder, r.toe, low),
         scale = mix(a - 1.0, a, low);
    d_power(t, p, by_x, by_p);
    vec3 d_a = d * power(t, p), d_t = d * scale * by_x, d_p = d * scale * by_p;
    d_toe = mix(vec3(0.0), d_p, low) - d_a * a * (1.0 - r.middle) / both;
    d_shoulder = mix(d_p, vec3(0.0), low) + d_a * (1.0 - a) * r.middle / both;
    d_middle = d_t * t * mix(1.0 / (1.0 - r.middle), -1.0 / r.middle, low) +
               d_a * (r.shoulder - a * (r.shoulder - r.toe)) / both;
    return d_t * mix(-1.0 / (1.0 - r.middle), 1.0 / r.middle, low);
}

// Gradients of what is trained, from those of the curve.
void d_response_of(Response r, inout vec3 d_toe, inout vec3 d_shoulder, inout vec3 d_gamma,
                   inout vec3 d_middle) {
    d_toe *= 1.0 - exp(LEAST_CURVE - r.toe);  // the derivative of softplus, from its value
    d_shoulder *= 1.0 - exp(LEAST_CURVE - r.shoulder);
    d_gamma *= 1.0 - exp(LEAST_GAMMA - r.gamma);
    d_middle *= (r.middle - OUTERMOST) * (1.0 - OUTERMOST - r.middle) / (1.0 - 2.0 * OUTERMOST);
}

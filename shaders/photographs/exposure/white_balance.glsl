// White balance as a homography of (R, G, I), I = R + G + B, by where it takes blue, red, green and
// neutral (PPISP, section on colour). With T = [t_b t_r t_g] and S the same for targets that stay
// where they are, H = T diag(lambda) S^-1, lambda such that the neutral colour goes to t_n; S^-1
// (R, G, I) = (B, R, G). So only the rows X and Y of T are needed, and lambda = (row of M) x (row
// of M) with M = [t_n]x T. Its scale cancels, because the result is scaled to keep I.
struct Balance {
    vec3 x, y;     // chromaticities R / I and G / I of the targets of blue, red and green
    vec2 neutral;  // of the neutral colour
    vec3 lambda;
};

const float DARKEST = 1e-6;  // colours below it keep their chromaticity

vec2 block(vec3 symmetric, vec2 v) {
    return vec2(symmetric.x * v.x + symmetric.y * v.y, symmetric.y * v.x + symmetric.z * v.y);
}
const vec3 BLOCK_BLUE = vec3(0.0480542, -0.0043631, 0.0481283),
           BLOCK_RED = vec3(0.0580570, -0.0179872, 0.0431061);
const vec3 BLOCK_GREEN = vec3(0.0433336, -0.0180537, 0.0580500),
           BLOCK_NEUTRAL = vec3(0.0128369, -0.0034654, 0.0128158);

// blue_red, green_neutral: what is trained, two numbers for each colour.
Balance balance_of(vec4 blue_red, vec4 green_neutral) {
    Balance b;
    vec2 blue = block(BLOCK_BLUE, blue_red.xy),
         red = vec2(1.0, 0.0) + block(BLOCK_RED, blue_red.zw),
         green = vec2(0.0, 1.0) + block(BLOCK_GREEN, green_neutral.xy);
    b.neutral = 1.0 / 3.0 + block(BLOCK_NEUTRAL, green_neutral.zw);
    b.x = vec3(blue.x, red.x, green.x);
    b.y = vec3(blue.y, red.y, green.y);
    // Rows 0 and 1 of M; times 3, so that it is 1 where nothing is moved.
    b.lambda = 3.0 * cross(b.neutral.y - b.y, b.x - b.neutral.x);
    return b;
}

vec3 balanced(Balance b, vec3 rgb) {
    vec3 w = b.lambda * rgb.brg;
    float all_three = rgb.r + rgb.g + rgb.b, scale = all_three / max(w.x + w.y + w.z, DARKEST),
          red = dot(b.x, w) * scale, green = dot(b.y, w) * scale;
    return vec3(red, green, all_three - red - green);
}

// Gradient by rgb, from that by the result; and by the rows x and y and by lambda.
vec3 d_balanced(Balance b, vec3 rgb, vec3 d, out vec3 d_x, out vec3 d_y, out vec3 d_lambda) {
    vec3 w = b.lambda * rgb.brg;
    float third = w.x + w.y + w.z, floored = max(third, DARKEST), all_three = rgb.r + rgb.g + rgb.b;
    vec2 d_two = vec2(d.r - d.b, d.g - d.b), d_v = d_two * (all_three / floored);
    float along = dot(d_two, vec2(dot(b.x, w), dot(b.y, w))) / floored;
    float d_third = third > DARKEST ? -along * all_three / floored : 0.0;
    vec3 d_w = d_v.x * b.x + d_v.y * b.y + d_third;
    d_x = d_v.x * w;
    d_y = d_v.y * w;
    d_lambda = d_w * rgb.brg;
    return (b.lambda * d_w).yzx + d.b + along;
}

// Gradients of what is trained, from those of the rows and lambda, summed over pixels.
void d_balance(Balance b, vec3 d_x, vec3 d_y, vec3 d_lambda, out vec4 d_blue_red,
               out vec4 d_green_neutral) {
    vec3 row0 = b.neutral.y - b.y, row1 = b.x - b.neutral.x;
    vec3 d_row0 = 3.0 * cross(row1, d_lambda), d_row1 = 3.0 * cross(d_lambda, row0);
    d_x += d_row1;
    d_y -= d_row0;
    vec2 d_neutral = vec2(-dot(d_row1, vec3(1.0)), dot(d_row0, vec3(1.0)));
    d_blue_red = vec4(block(BLOCK_BLUE, vec2(d_x.x, d_y.x)), block(BLOCK_RED, vec2(d_x.y, d_y.y)));
    d_green_neutral = vec4(block(BLOCK_GREEN, vec2(d_x.z, d_y.z)), block(BLOCK_NEUTRAL, d_neutral));
}

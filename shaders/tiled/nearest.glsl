// Least of the quadratic form over a rectangle of offsets from the mean: on the edges that face it,
// 0 inside.
float nearest(vec2 low, vec2 high, float A, float k, float c) {
    vec2 e = clamp(vec2(0.0), low, high);
    float y = clamp(-A * k * e.x / (A * k * k + c), low.y, high.y),
          x = clamp(-k * e.y, low.x, high.x);
    float across = e.x + k * y, along = x + k * e.y;
    return min(A * across * across + c * y * y, A * along * along + c * e.y * e.y);
}

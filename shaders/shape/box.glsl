// <shape>: the axis-aligned box around the ellipse. Six vertices are two triangles; the first three are one triangle, whose bounding box it is.
const vec2 CORNERS[6] = vec2[](vec2(-1, -1), vec2(1, -1), vec2(-1, 1), vec2(-1, 1), vec2(1, -1), vec2(1, 1));

vec2 vertex_of(Splat2D s, uint i) {
    return s.mean + CORNERS[i] * vec2(support(s, vec2(1, 0)), support(s, vec2(0, 1)));
}

// What a splat's proxy geometry starts from, in any stage: which splat it is, how far out its edges
// lie, what its fragments get.
#include "contract/splats.glsl"
#include "contract/sort.glsl"
#define VARYING out
#include "draw/varyings.glsl"

layout(constant_id = 0) const bool BACK_TO_FRONT = false;
// Colour that the target can hold: one beyond it would undo the subtraction of the backward pass.
layout(constant_id = 1) const float LARGEST = 1.0;
layout(constant_id = 2) const uint CANVAS_WIDTH = 1u;
layout(constant_id = 3) const uint CANVAS_HEIGHT = 1u;
layout(constant_id = 4) const uint BLOCK_W = 1u;  // pixels that a fragment covers
layout(constant_id = 5) const uint BLOCK_H = 1u;
layout(constant_id = 6) const uint VERTICES = 6u;  // of SHAPE
layout(constant_id = 14) const bool RANKED = false;  // fragments bear ranks, not splats
#include "draw/segments.glsl"

BUFFER_counts(readonly)
BUFFER_splats2d(readonly)
BUFFER_colors2d(readonly)
BUFFER_order(readonly)

const float PI = 3.14159265;

// What is drawn as number i: a splat, how many are nearer, and its depth segment.
struct Drawn {
    uint splat, rank, segment;
};

// All visible splats, once each. The segments come one after the other from the back, or
// interleaved from the front.
Drawn drawn_as(uint i) {
    uint segment = i % SEGMENTS, rank = segment_start(segment, counts.visible) + i / SEGMENTS;
    if (BACK_TO_FRONT) {
        rank = counts.visible - 1u - i;
        segment = segment_of(rank, counts.visible);
    }
    return Drawn(order[rank], rank, segment);
}

// color_of(color): what is drawn of a splat's colour
#include <color>
#ifndef FILLED_color
vec3 color_of(vec3 color) { return min(color, vec3(LARGEST)); }
#endif

vec4 clip(vec2 px, Drawn d) {
    vec2 at =
        (px + vec2(0, d.segment * CANVAS_HEIGHT)) / vec2(CANVAS_WIDTH, SEGMENTS * CANVAS_HEIGHT);
    return vec4(at * 2.0 - 1.0, 0.0, 1.0);
}

// What a fragment bears: a rank or a splat.
uint name_of(Drawn d) { return RANKED ? d.rank : d.splat; }

// The rows of fragments above those of a segment.
float top_of(uint segment) { return float(segment * CANVAS_HEIGHT / BLOCK_H); }

// A block is drawn where its centre is inside: edges reach as far out as its outermost pixel
// centres lie from it.
vec2 reach() { return 0.5 * vec2(BLOCK_W - 1u, BLOCK_H - 1u); }

// Half axes of the oriented box around the ellipse, px.
void box_axes(Splat2D s, out vec2 axis1, out vec2 axis2) {
    axis1 = s.axis1;
    axis2 = s.axis2;
    if (BLOCK_W * BLOCK_H > 1u) {
        vec2 e1 = normalize(axis1), e2 = normalize(axis2);
        axis1 += e1 * dot(reach(), abs(e1));
        axis2 += e2 * dot(reach(), abs(e2));
    }
}

// Where an edge with outward normal w must lie: dot(w, p - mean) of its points p. The support
// function of the ellipse, plus that of a disk of QUAD_MARGIN and that of the block; linear in the
// length of w.
float support(Splat2D s, vec2 w) {
    vec2 axis1 = s.axis1 * (1.0 - QUAD_MARGIN / length(s.axis1)),
         axis2 = s.axis2 * (1.0 - QUAD_MARGIN / length(s.axis2));
    return length(vec2(dot(w, axis1), dot(w, axis2))) + QUAD_MARGIN * length(w) +
           dot(reach(), abs(w));
}

// Corner between the edges k and k + 1 of the n-gon around the ellipse that is regular where the
// oriented box is a square, px. Edge 0 faces `phase`, an angle from axis 1. Solved in the box's own
// coordinates, where a long thin splat is no worse than a round one.
vec2 polygon_corner(Splat2D s, uint n, uint k, float phase) {
    vec2 axis1, axis2;
    box_axes(s, axis1, axis2);
    float turn = 2.0 * PI / float(n), angle = phase + turn * float(k);
    vec2 a = vec2(cos(angle), sin(angle)), b = vec2(cos(angle + turn), sin(angle + turn));
    mat2 normal_of = mat2(axis1 / dot(axis1, axis1), axis2 / dot(axis2, axis2));
    float to_a = support(s, normal_of * a), to_b = support(s, normal_of * b);
    vec2 corner = vec2(to_a * b.y - to_b * a.y, to_b * a.x - to_a * b.x) / sin(turn);
    return s.mean + corner.x * axis1 + corner.y * axis2;
}

// Which splats are visible, and which of their colours are above 0: a bit each.
BUFFER_seen(writeonly)

void keep_nothing(uint g) { seen[g] = 0u; }

void keep_seen(uint g, vec3 color) {
    seen[g] =
        1u + (color.r > 0.0 ? 2u : 0u) + (color.g > 0.0 ? 4u : 0u) + (color.b > 0.0 ? 8u : 0u);
}

// <working> of optim/sink_adam.glsl: the splats are a working set. Terms of the loss are means over
// the whole model, and the noise of rounding is that of the splats' places there.
#include "contract/working.glsl"
BUFFER_working(readonly)
BUFFER_model_counts(readonly)

uint items_in_all(uint items) { return model_counts.splats; }

// Two random numbers of 16 bits for each of numbers 4 i to 4 i + 3, as rounding_noise has them for
// the four numbers that the model has in one place.
uvec4 noise_of(Plane plane, uint plane_index, uint i, uvec4 item, uint items) {
    uvec4 noise = uvec4(0u);
    for (uint c = 0u; c < 4u; ++c) {
        if (item[c] >= items) continue;
        uint there = plane.width * working[item[c]] + (4u * i + c - plane.width * item[c]);
        uvec4 four = rounding_noise(
            uvec4(frame.seed, frame.step, there / 4u, DRAW_ROUNDING + plane_index));
        uint from = there % 4u, half_of = 16u * (from % 2u), to = 16u * (c % 2u);
        noise[c / 2u] |= (four[from / 2u] >> half_of & 0xFFFFu) << to;
        noise[2u + c / 2u] |= (four[2u + from / 2u] >> half_of & 0xFFFFu) << to;
    }
    return noise;
}

// Moments of the splats of a working set, of every plane that the step moves: from the model, or
// back to it. Lanes take two numbers of the model at once, which halves of 32 bits need to fill a
// cache line.
#include "working/block.glsl"
#include "contract/trained.glsl"
#include <moments>
#include "working/moves.glsl"

layout(constant_id = 0) const bool BACK = false;
UNIFORM_planes
UNIFORM_model_planes
layout(buffer_reference, scalar, buffer_reference_align = 4) restrict buffer any_moment_plane {
    TWO_MOMENTS at[];
};

// Where number i of a block is in the working set, or NOWHERE.
const uint NOWHERE = 0xFFFFFFFFu;
uint place_of(uint i, uint width) {
    uint place = i / width;
    if (!is_shown(place)) return NOWHERE;
    uint rank = rank_of(place);
    return rank < counts.capacity ? width * rank + i - width * place : NOWHERE;
}

uint read_one(any_moment_plane own, uint here) {
    uvec2 two = bits_of_two(own.at[here / 2u]);
    return here % 2u == 0u ? two.x : two.y;
}

void write_one(any_moment_plane own, uint here, uint bits) {
    if (here % 2u == 0u) own.at[here / 2u].x = moment_of(bits);
    else own.at[here / 2u].y = moment_of(bits);
}

void gather(any_moment_plane whole, any_moment_plane own, uint there, uvec2 here) {
    uvec2 two = bits_of_two(whole.at[there]);
    if (here.x != NOWHERE) write_one(own, here.x, two.x);
    if (here.y != NOWHERE) write_one(own, here.y, two.y);
}

void put(any_moment_plane whole, any_moment_plane own, uint there, uvec2 here) {
    uvec2 two = uvec2(0u);
    if (here.x != NOWHERE) two.x = read_one(own, here.x);
    if (here.y != NOWHERE) two.y = read_one(own, here.y);
    if (here.x != NOWHERE && here.y != NOWHERE) whole.at[there] = two_moments_of(two);
    else if (here.x != NOWHERE) whole.at[there].x = moment_of(two.x);
    else whole.at[there].y = moment_of(two.y);
}

void main() {
    uint block = group_index();
    if (!open_block(block)) return;
    for (uint p = 0u; p < planes.of_splats; ++p) {
        if (!moves(p)) continue;
        uint width = planes.at[p].width;
        any_moment_plane m = any_moment_plane(planes.at[p].first),
                         v = any_moment_plane(planes.at[p].second),
                         whole_m = any_moment_plane(model_planes.at[p].first),
                         whole_v = any_moment_plane(model_planes.at[p].second);
        for (uint i = gl_LocalInvocationID.x; i < BLOCK * width / 2u; i += GROUP) {
            uvec2 here = uvec2(place_of(2u * i, width), place_of(2u * i + 1u, width));
            if (here.x == NOWHERE && here.y == NOWHERE) continue;
            uint there = BLOCK * width / 2u * block + i;
            if (BACK) {
                put(whole_m, m, there, here);
                put(whole_v, v, there, here);
            } else {
                gather(whole_m, m, there, here);
                gather(whole_v, v, there, here);
            }
        }
    }
}

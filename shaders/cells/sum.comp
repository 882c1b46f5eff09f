// Where each list begins, which share of the rounds of the draw it takes part in, and work sizes. One workgroup.
// Lists that have no room all lose the same share of their splats, the farthest.
#include "common.glsl"
#include "contract/cells.glsl"
layout(local_size_x = GROUP) in;
layout(constant_id = 6) const uint VERTICES = 3u;  // of a splat's outline
BUFFER_counts(restrict)
BUFFER_indirect(writeonly)
BUFFER_cell_lists(restrict)
BUFFER_cell_members(readonly)
#include "cells/grid.glsl"
#include "draw/segments.glsl"
#include "scan.glsl"
shared uint longest;

const uint LISTS = CELLS * SEGMENTS, EACH = (LISTS + GROUP - 1u) / GROUP;  // lists of a thread

// ceil(2^32 part / whole), part < whole < 2^31.
uint share_of(uint part, uint whole) {
    uint rest = part, share = 0u;
    for (uint bit = 0u; bit < 32u; ++bit) {
        rest <<= 1u;
        bool one = rest >= whole;
        rest -= one ? whole : 0u;
        share = share << 1u | uint(one);
    }
    return share + uint(rest > 0u);
}

void main() {
    uint t = gl_LocalInvocationID.x, low = 0u, high = 0u, low_total, high_total, room = uint(cell_members.length());
    if (t == 0u) longest = 0u;
    for (uint i = EACH * t; i < min(EACH * t + EACH, LISTS); ++i) {
        low += cell_lists[i].splats & 0xFFFFu;
        high += cell_lists[i].splats >> 16u;
    }
    scan_group(low, low_total);
    scan_group(high, high_total);
    uint carry, wanted = uaddCarry(high_total << 16u, low_total, carry), wanted_high = (high_total >> 16u) + carry;
    bool fits = wanted_high == 0u && wanted <= room;
    float share = fits ? 1.0 : 0.999 * float(room) / (float(wanted) + 4294967296.0 * float(wanted_high));

    uint own = 0u, most = 0u, total;
    for (uint i = EACH * t; i < min(EACH * t + EACH, LISTS); ++i) {
        uint own_splats = fits ? cell_lists[i].splats : uint(float(cell_lists[i].splats) * share);
        cell_lists[i].splats = own_splats;
        own += own_splats;
        most = max(most, own_splats);
    }
    uint start = scan_group(own, total);
    atomicMax(longest, most);
    barrier();
    uint rounds = longest + 1u;
    for (uint i = EACH * t; i < min(EACH * t + EACH, LISTS); ++i) {
        cell_lists[i].start = start;
        cell_lists[i].share = share_of(cell_lists[i].splats, rounds);
        start += cell_lists[i].splats;
    }
    if (t > 0u) return;
    counts.pairs = total;
    counts.pairs_wanted = wanted;
    counts.pairs_wanted_high = wanted_high;
    indirect.cell_rounds = fold(total > 0u ? rounds : 0u);
    indirect.draw_cells = uvec4(VERTICES * total, 1u, 0u, 0u);
}

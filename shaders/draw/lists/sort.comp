// Puts lists of fragments in order, nearest first, a thread a list. The draw began with the nearest
// splat and the list with the fragment that came last, so most fragments go in front of all before
// them; one that came out of turn is put where it belongs. A list whose end is never reached must
// not hang the device.
#include "contract/core.glsl"
#include "contract/fragments.glsl"
layout(local_size_x = 8, local_size_y = 8) in;
layout(constant_id = 8) const uint SEGMENTS = 1u;
BUFFER_fragment_lists(restrict)
BUFFER_fragments(restrict)
#include "draw/lists/block.glsl"

const uint MOST_VISITS = 1u << 26;

void main() {
    uvec2 block = gl_GlobalInvocationID.xy;
    if (block.x >= BLOCKS_X || block.y >= BLOCKS_Y * SEGMENTS) return;
    uint list = place_of(block, 0u), at = fragment_lists[list].first, front = NO_FRAGMENT,
         front_rank = NO_FRAGMENT, visits = MOST_VISITS;
    while (at != NO_FRAGMENT && visits > 0u) {
        --visits;
        uint rank = fragments[at].rank, next = fragments[at].next;
        if (rank < front_rank) {
            fragments[at].next = front;
            front = at;
            front_rank = rank;
        } else {
            uint before = front, behind = fragments[front].next;
            while (behind != NO_FRAGMENT && fragments[behind].rank < rank && visits > 0u) {
                --visits;
                before = behind;
                behind = fragments[behind].next;
            }
            fragments[at].next = behind;
            fragments[before].next = at;
        }
        at = next;
    }
    fragment_lists[list].first = front;
}

// The splats of a model that a view may show, in ascending order, as far as they fit.
#include "common.glsl"
#include "contract/working.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_shown_bits(readonly)
BUFFER_shown_sums(readonly)
BUFFER_working(writeonly)

const uint BLOCK = GROUP * SORT_ROWS, WORDS = BLOCK / 32u;
shared uint words[WORDS];

void main() {
    uint block = group_index(), t = gl_LocalInvocationID.x;
    if (t < WORDS) words[t] = shown_bits[block * WORDS + t];
    barrier();
    for (uint place = t; place < BLOCK; place += GROUP) {
        uint word = place / 32u, bit = 1u << place % 32u;
        if ((words[word] & bit) == 0u) continue;
        uint rank = shown_sums[block] + bitCount(words[word] & (bit - 1u));
        for (uint before = 0u; before < word; ++before) rank += bitCount(words[before]);
        if (rank < counts.capacity) working[rank] = block * BLOCK + place;
    }
}

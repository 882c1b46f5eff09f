// The splats of a model that one workgroup moves: those of a block of GROUP * SORT_ROWS that a view
// may show. Lanes take numbers in the order of the model's memory, so that what crosses the bus does
// in whole cache lines, and its places there are aligned.
#include "common.glsl"
#include "contract/working.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_shown_bits(readonly)
BUFFER_shown_sums(readonly)

const uint BLOCK = GROUP * SORT_ROWS, WORDS = BLOCK / 32u;
shared uint words[WORDS], ranks[WORDS];  // of each word: splats of the block that are before it

// False where there are none, as in most blocks. Every thread must call it.
bool open_block(uint block) {
    uint t = gl_LocalInvocationID.x, before = shown_sums[block];
    if (before == shown_sums[block + 1u]) return false;
    if (t < WORDS) words[t] = shown_bits[block * WORDS + t];
    barrier();
    for (uint word = 0u; word < min(t, WORDS); ++word) before += bitCount(words[word]);
    if (t < WORDS) ranks[t] = before;
    barrier();
    return true;
}

// Whether the splat at this place of the block is shown, and its place in the working set.
bool is_shown(uint place) { return (words[place / 32u] >> place % 32u & 1u) != 0u; }
uint rank_of(uint place) {
    uint word = place / 32u;
    return ranks[word] + bitCount(words[word] & ((1u << place % 32u) - 1u));
}

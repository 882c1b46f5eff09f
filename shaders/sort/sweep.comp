// Radix sort, a digit in one pass: moves keys and values behind all that sort before them, keeping
// the order of equal digits. A workgroup tells the others how often its block of keys has each
// digit, and adds up what the blocks before it tell. Workgroups take blocks in the order in which
// they begin, so that none waits for one that has not begun. One that waits too long counts the
// keys of others. Keys are ranked by subgroups, and put in order in shared memory first, as in
// scatter.comp.
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "common.glsl"
#include "contract/sort.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 2) const bool LAST = false;  // the keys of the last pass are not read

BUFFER_counts(restrict)
BUFFER_indirect(writeonly)
BUFFER_keys(readonly)
BUFFER_order(readonly)
BUFFER_keys_alt(writeonly)
BUFFER_order_alt(writeonly)
BUFFER_digit_counts(coherent volatile)
BUFFER_digit_totals(restrict)
#include "sort/keys.glsl"
#include "sort/command.glsl"
#include "sort/sums.glsl"
#include "sort/rank_ballots.glsl"
// arrived(key, place): of keys that are alike in a block the first went to this place
#include <arrived>
#ifndef FILLED_arrived
void arrived(uint key, uint place) {}
#endif
layout(constant_id = 17) const uint PATIENCE = 1024u;  // looks of a thread at what is not complete
const uint HELPERS = GROUP / DIGITS;                   // threads that add up a digit
const uint AT_ONCE = 8u;                               // loads of a thread
shared uint sorted_keys[BLOCK], sorted_values[BLOCK], offsets[DIGITS], next_counts[RADIX], ticket;
shared uvec2 sums[GROUP / SEGMENT];

// Sums of what lower threads have. Those of subgroups stay in `sums`.
uvec2 scan(uvec2 value) {
    uvec2 inclusive = subgroupInclusiveAdd(value), before = inclusive - value;
    if (gl_SubgroupInvocationID == SEGMENT - 1u) sums[gl_SubgroupID] = inclusive;
    barrier();
    for (uint s = 0u; s < gl_SubgroupID; ++s) before += sums[s];
    return before;
}

// The sum over all digits, each of which a thread has.
uvec2 scanned() {
    uvec2 all = uvec2(0u);
    for (uint s = 0u; s < max(DIGITS / SEGMENT, 1u); ++s) all += sums[s];
    return all;
}

// Number i of the sums that make up all blocks before one: its place in the table, of how many
// blocks it is, and the first of them.
uvec3 sum_before(uint block, uint i) {
    uint many = block / MANY, few = block % MANY / FEW;
    if (i < many) return uvec3(rows_of(i * MANY, TURN).z, MANY, i * MANY);
    uint first = many * MANY + (i - many) * FEW;
    if (i < many + few) return uvec3(rows_of(first, TURN).y, FEW, first);
    first = block / FEW * FEW + i - many - few;
    return uvec3(rows_of(first, TURN).x, 1u, first);
}

// How many keys of a block have a digit, where its workgroup has not told yet.
uint counted(uint block, uint digit) {
    uint sum = 0u, first = block * BLOCK;
    for (uint i = first; i < first + BLOCK; i += AT_ONCE)
        [[unroll]] for (uint j = i; j < i + AT_ONCE; ++j) {
            uint key = j < key_count() ? keys[j] : NOT_VISIBLE;
            if (is_in(j, key) && digit_of(key) == digit) ++sum;
        }
    return sum;
}

uint counted_blocks(uint first, uint blocks, uint digit) {
    uint sum = 0u;
    for (uint block = first; block < first + blocks; ++block) {
        uint word = digit_counts[rows_of(block, TURN).x + digit];
        sum += blocks_in(word) == 1u ? word & SUM : counted(block, digit);
    }
    return sum;
}

// The keys of a digit in blocks before one, of which each of the HELPERS adds up its share of sums.
uint keys_before(uint block, uint digit, uint helper) {
    uint n = block / MANY + block % MANY / FEW + block % FEW, sum = 0u, patience = PATIENCE;
    for (uint first = helper; first < n; first += AT_ONCE * HELPERS) {
        uint word[AT_ONCE];
        [[unroll]] for (uint j = 0u; j < AT_ONCE; ++j) {
            uint i = first + j * HELPERS;
            if (i < n) word[j] = digit_counts[sum_before(block, i).x + digit];
        }
        [[unroll]] for (uint j = 0u; j < AT_ONCE; ++j) {
            uint i = first + j * HELPERS;
            if (i >= n) continue;
            uvec3 part = sum_before(block, i);
            for (; blocks_in(word[j]) != part.y && patience > 0u; --patience)
                word[j] = digit_counts[part.x + digit];
            sum += blocks_in(word[j]) == part.y ? word[j] & SUM
                                                : counted_blocks(part.z, part.y, digit);
        }
    }
    return sum;
}

void main() {
    uint t = thread();
    if (t == 0u) ticket = atomicAdd(digit_totals[SLOT * RADIX + TICKET], 1u);
    begin_ranks();
    for (uint i = t; i < RADIX; i += GROUP) next_counts[i] = 0u;
    barrier();
    uint block = ticket, count = key_count();
    if (block > 0u && block * BLOCK >= count) return;
    uint segment = t / SEGMENT,
         first = block * BLOCK + segment * SEGMENT * SORT_ROWS + t % SEGMENT;
    uint key[SORT_ROWS], value[SORT_ROWS], rank[SORT_ROWS];
    [[unroll]] for (uint row = 0u; row < SORT_ROWS; ++row) {
        uint i = first + row * SEGMENT;
        key[row] = i < count ? keys[i] : NOT_VISIBLE;
        value[row] = FIRST ? i : i < count ? order[i] : 0u;
    }
    uint total = t < DIGITS ? digit_totals[SLOT * RADIX + t] : 0u;
    for (uint row = 0u; row < SORT_ROWS; ++row) {
        bool here = first + row * SEGMENT < count && !(FIRST && key[row] == NOT_VISIBLE);
        rank[row] = in_segment(segment, digit_of(key[row]), here);
        if (!here) rank[row] = NOT_VISIBLE;
        else if (!LAST) atomicAdd(next_counts[next_digit_of(key[row])], 1u);
    }
    barrier();
    uint own = 0u;
    if (t < DIGITS) {
        for (uint s = 0u; s < GROUP / SEGMENT; ++s) own += places[s << BITS | t];
        uvec3 rows = rows_of(block, TURN);
        uint word = ONE_BLOCK | own;
        digit_counts[rows.x + t] = word;
        atomicAdd(digit_counts[rows.y + t], word);
        atomicAdd(digit_counts[rows.z + t], word);
        if (!LAST) {
            clear_rows(block, 1u - TURN, t);
            if (next_counts[t] > 0u)
                atomicAdd(digit_totals[(SLOT + 1u) * RADIX + t], next_counts[t]);
        }
    }
    uvec2 before = scan(uvec2(own, total)), all = scanned();
    uint within = before.x, keys_here = all.x;
    if (t < DIGITS) {
        offsets[t] = before.y - within;
        for (uint s = 0u; s < GROUP / SEGMENT; ++s) {
            uint more = places[s << BITS | t];
            places[s << BITS | t] = within;
            within += more;
        }
    }
    if (FIRST && block == 0u && t == 0u) {
        counts.visible = all.y;
        indirect.visible_blocks = fold((all.y + BLOCK - 1u) / BLOCK);
        indirect.visible_groups = fold((all.y + GROUP - 1u) / GROUP);
        indirect.draw = draw_command(all.y);
    }
    barrier();
    for (uint row = 0u; row < SORT_ROWS; ++row) {
        if (rank[row] == NOT_VISIBLE) continue;
        uint place = places[segment << BITS | digit_of(key[row])] + rank[row];
        sorted_keys[place] = key[row];
        sorted_values[place] = value[row];
    }
    if (t < HELPERS * DIGITS) {
        uint more = keys_before(block, t % DIGITS, t / DIGITS);
        if (more > 0u) atomicAdd(offsets[t % DIGITS], more);
    }
    barrier();
    for (uint i = t; i < keys_here; i += GROUP) {
        uint own_key = sorted_keys[i], place = offsets[digit_of(own_key)] + i;
        if (!LAST) keys_alt[place] = own_key;
        order_alt[place] = sorted_values[i];
        if (i == 0u || sorted_keys[i - 1u] != own_key) arrived(own_key, place);
    }
}

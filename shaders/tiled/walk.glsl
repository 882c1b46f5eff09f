// <walk>, what forward and backward share: a workgroup walks the splats of its tile front to back, a batch in shared memory at a time. The pixels of a
// tile are in Morton order, so those of a subgroup are a rectangle: its lanes test a splat each against it, and only who touches it is visited.
#include "contract/tiles.glsl"
#include "tiled/lanes.glsl"
#include "tiled/grid.glsl"

layout(constant_id = 2) const uint PER_LANE = 1u;   // pixels of a lane
layout(constant_id = 3) const bool CULL = true;     // else a subgroup visits every splat of its tile
layout(constant_id = 14) const uint AT_ONCE = 1u;   // splats that are visited together, where there are as many: 1, 4 or 8
layout(constant_id = 9) const bool BY_PAIR = false;  // sums are kept by pair, not by splat
layout(constant_id = 8) const uint LOADS = 1u;       // splats of a batch that a thread loads
layout(constant_id = 16) const uint TESTS = 1u;      // splats that a lane tests before those that touch are visited

BUFFER_tile_starts(readonly)
BUFFER_pair_splats(readonly)
BUFFER_tile_splats(readonly)
BUFFER_tile_reaches(readonly)

const uint BATCH = LOADS * gl_WorkGroupSize.x;
shared vec4 batch_mean_conic[BATCH], batch_conic_color[BATCH];
shared vec2 batch_peaks[BATCH];  // and cutoff
shared uint batch_targets[BATCH];
shared uint listed[TESTS * gl_WorkGroupSize.x];  // a list of splats for each subgroup
shared uint finished_subgroups;

uint tile, begin, end;      // of this workgroup: its tile, and its pairs
void before_chunk(uint i);  // pair begin + i and TESTS * LANES - 1 more come next
void visit(uint i);         // splat i of the batch, at this lane's pixels
// Several, one behind the other, whose latencies hide each other.
void visit_two(uint i, uint k);
void visit_four(uvec4 i, uint count);            // 3, or 4 and more
void visit_eight(uvec4 i, uvec4 k, uint count);  // 5 to 7, or 8 and more
bool finished();            // whether they take no more splats
vec4 mean_conic_of(uint i) { return batch_mean_conic[i]; }
vec4 conic_color_of(uint i) { return batch_conic_color[i]; }
float peak_of(uint i) { return batch_peaks[i].x; }
uint target_of(uint i) { return batch_targets[i]; }  // the splat or pair that its sums belong to

// Pixel j of this lane, counted through its tile in Morton order: lanes side by side, so that a subgroup is a rectangle for every j.
uint pixel_index(uint j) { return gl_SubgroupID * LANES * PER_LANE + j * LANES + gl_SubgroupInvocationID; }

// The lane's first pixel on the canvas, and the way from there to its pixel j.
uvec2 corner_of_tile() { return uvec2(tile % TILES_X, tile / TILES_X) * TILE; }
uvec2 first_pixel() { return corner_of_tile() + morton(pixel_index(0u)); }
uvec2 step_to(uint j) { return morton(j * LANES); }

// Ranks of the splats of the batch whose first pair is this one.
void ask(inout uint ranks[LOADS], uint first) {
    [[unroll]] for (uint l = 0u; l < LOADS; ++l) {
        uint i = first + l * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
        if (i < end) ranks[l] = pair_splats[i];
    }
}

// The batch, into shared memory.
void load(uint ranks[LOADS], uint first) {
    [[unroll]] for (uint l = 0u; l < LOADS; ++l) {
        uint own = l * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
        if (first + own >= end) continue;
        TileSplat s = tile_splats[ranks[l]];
        TileReach r = tile_reaches[ranks[l]];
        batch_mean_conic[own] = s.mean_conic;
        batch_conic_color[own] = s.conic_color;
        batch_peaks[own] = vec2(r.peak, r.cutoff);
        batch_targets[own] = BY_PAIR ? first + own : r.splat;
    }
}

// Adds to the subgroup's list, which has `count` splats, those of the next LANES that touch its pixels; returns how many there are then.
uint list(uint count, uint mine, bool touches) {
    uvec4 touching = subgroupBallot(touches);
    if (touches) listed[gl_SubgroupID * TESTS * LANES + count + subgroupBallotExclusiveBitCount(touching)] = mine;
    return count + subgroupBallotBitCount(touching);
}

// Four of the list from place i on, or as many as are left, and the first of them again.
uvec4 four_of(uint i, uint left) { return uvec4(listed[i], listed[i + (left > 1u ? 1u : 0u)], listed[i + (left > 2u ? 2u : 0u)], listed[i + (left > 3u ? 3u : 0u)]); }

void visit_listed(uint count) {
    uint first = gl_SubgroupID * TESTS * LANES;
    for (uint k = 0u; k < count; k += AT_ONCE) {
        uint i = first + k, left = count - k;
        if (AT_ONCE == 1u) {
            visit(listed[i]);
            continue;
        }
        uvec4 next = four_of(i, left);
        if (AT_ONCE == 8u && left > 4u) visit_eight(next, four_of(i + 4u, left - 4u), left);
        else if (left > 2u) visit_four(next, left);
        else if (left == 2u) visit_two(next.x, next.y);
        else visit(next.x);
    }
}

void walk() {
    vec2 low = vec2(first_pixel() - morton(gl_SubgroupInvocationID)) + 0.5 - QUAD_MARGIN;
    vec2 high = low + vec2(morton(LANES * PER_LANE - 1u)) + 2.0 * QUAD_MARGIN;
    bool done = subgroupAll(finished());
    if (gl_LocalInvocationIndex == 0u) finished_subgroups = 0u;
    barrier();
    if (done && subgroupElect()) atomicAdd(finished_subgroups, 1u);
    uint ranks[LOADS];
    ask(ranks, begin);
    for (uint first = begin; first < end; first += BATCH) {
        barrier();
        if (finished_subgroups == gl_NumSubgroups) break;
        load(ranks, first);
        ask(ranks, first + BATCH);  // which splats come next is known when they are loaded
        barrier();
        uint in_batch = min(BATCH, end - first);
        for (uint chunk = 0u; chunk < in_batch && !done; chunk += TESTS * LANES) {
            before_chunk(first - begin + chunk);
            uint count = 0u;
            wait_for_lanes();  // nobody reads the last list any more
            [[unroll]] for (uint test = 0u; test < TESTS; ++test) {
                uint mine = chunk + test * LANES + gl_SubgroupInvocationID;
                bool touches = mine < in_batch;
                if (CULL && touches) {
                    vec4 m = batch_mean_conic[mine];
                    touches = nearest(low - m.xy, high - m.xy, m.z, m.w, batch_conic_color[mine].x) <= batch_peaks[mine].y;
                }
                count = list(count, mine, touches);
            }
            wait_for_lanes();
            visit_listed(count);
            done = subgroupAll(finished());
            if (done && subgroupElect()) atomicAdd(finished_subgroups, 1u);
        }
    }
}

// <walk>, what forward and backward share: a workgroup walks the splats of its tile front to back, a batch in shared memory at a time. The pixels of a
// tile are in Morton order, so those of a subgroup are a rectangle: its lanes test a splat each against it, and only who touches it is visited.
#include "contract/tiles.glsl"
#include "tiled/lanes.glsl"
#include "tiled/grid.glsl"

layout(constant_id = 2) const uint PER_LANE = 1u;   // pixels of a lane
layout(constant_id = 3) const bool CULL = true;     // else a subgroup visits every splat of its tile
layout(constant_id = 14) const uint AT_ONCE = 1u;   // splats that are visited together, where there are as many: 1 or 4
layout(constant_id = 9) const bool BY_PAIR = false;  // sums are kept by pair, not by splat
layout(constant_id = 8) const uint LOADS = 1u;       // splats of a batch that a thread loads

BUFFER_tile_starts(readonly)
BUFFER_pair_splats(readonly)
BUFFER_tile_splats(readonly)
BUFFER_tile_reaches(readonly)

const uint BATCH = LOADS * gl_WorkGroupSize.x;
shared vec4 batch_mean_conic[BATCH], batch_conic_color[BATCH];
shared vec2 batch_peaks[BATCH];  // and cutoff
shared uint batch_targets[BATCH];
shared uint listed[gl_WorkGroupSize.x];  // a list of splats for each subgroup
shared uint finished_subgroups;

uint tile, begin, end;      // of this workgroup: its tile, and its pairs
void before_chunk(uint i);  // pair begin + i and LANES - 1 more come next
void visit(uint i);         // splat i of the batch, at this lane's pixels
// Several, one behind the other, whose latencies hide each other.
void visit_two(uint i, uint k);
void visit_four(uvec4 i, uint count);  // 3, or 4 and more
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

// The subgroup's list of the splats that touch its pixels, in their order; returns how many.
uint list(uint mine, bool touches) {
    uvec4 touching = subgroupBallot(touches);
    uint place = gl_SubgroupID * LANES + subgroupBallotExclusiveBitCount(touching);
    wait_for_lanes();  // nobody reads the last list any more
    if (touches) listed[place] = mine;
    wait_for_lanes();
    return subgroupBallotBitCount(touching);
}

void visit_listed(uint count) {
    uint first = gl_SubgroupID * LANES;
    if (AT_ONCE == 1u) {
        for (uint k = first; k < first + count; ++k) visit(listed[k]);
        return;
    }
    for (uint k = 0u; k < count; k += 4u) {
        uint i = first + k, left = count - k;
        uvec4 next = uvec4(listed[i], listed[i + 1u], listed[i + 2u], listed[i + (left > 3u ? 3u : 0u)]);
        if (left > 2u) visit_four(next, left);
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
        for (uint chunk = 0u; chunk < in_batch && !done; chunk += LANES) {
            before_chunk(first - begin + chunk);
            uint mine = chunk + gl_SubgroupInvocationID;
            bool touches = mine < in_batch;
            if (CULL && touches) {
                vec4 m = batch_mean_conic[mine];
                touches = nearest(low - m.xy, high - m.xy, m.z, m.w, batch_conic_color[mine].x) <= batch_peaks[mine].y;
            }
            visit_listed(list(mine, touches));
            done = subgroupAll(finished());
            if (done && subgroupElect()) atomicAdd(finished_subgroups, 1u);
        }
    }
}

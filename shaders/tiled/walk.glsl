// <walk>, what forward and backward share: a workgroup walks the splats of its tile front to back,
// a batch in shared memory at a time. The pixels of a tile are in Morton order, so those of a
// subgroup are a rectangle: its lanes test a splat each against it, and only those that touch it
// are visited.
#include "contract/tiles.glsl"
#include "tiled/lanes.glsl"
#include "tiled/grid.glsl"

layout(constant_id = 2) const uint PER_LANE = 1u;   // pixels of a lane
// Else a subgroup visits every splat of its tile.
layout(constant_id = 3) const bool CULL = true;
// A subgroup lists the splats that it visits in shared memory; else it takes them from the bits of
// its ballot.
layout(constant_id = 14) const bool LISTED = true;
layout(constant_id = 9) const bool BY_PAIR = false;  // sums are kept by pair, not by splat

// A tile goes through all visible splats.
layout(constant_id = 29) const bool UNLISTED = false;

BUFFER_tile_starts(readonly)
BUFFER_pair_splats(readonly)
BUFFER_tile_splats(readonly)
BUFFER_tile_reaches(readonly)

const uint BATCH = gl_WorkGroupSize.x, WORDS = (LANES + 31u) / 32u;
shared vec4 batch_mean_conic[BATCH], batch_conic_color[BATCH];
shared vec2 batch_peaks[BATCH];  // and cutoff
shared uint batch_targets[BATCH];
shared uint listed[gl_WorkGroupSize.x];  // a list of splats for each subgroup
shared uint finished_subgroups;

uint tile, begin, end;      // of this workgroup: its tile, and its pairs
void before_batch(uint i);  // all subgroups: pair begin + i and BATCH - 1 more come next
void before_chunk(uint i);  // pair begin + i and LANES - 1 more come next
void visit(uint i);         // splat i of the batch, at this lane's pixels
bool finished();            // whether they take no more splats
vec4 mean_conic_of(uint i) { return batch_mean_conic[i]; }
vec4 conic_color_of(uint i) { return batch_conic_color[i]; }
float peak_of(uint i) { return batch_peaks[i].x; }
uint target_of(uint i) { return batch_targets[i]; }  // the splat or pair that its sums belong to

// Pixel j of this lane, counted through its tile in Morton order: lanes are contiguous, so that a
// subgroup is a rectangle for every j.
uint pixel_index(uint j) {
    return gl_SubgroupID * LANES * PER_LANE + j * LANES + gl_SubgroupInvocationID;
}

// The lane's first pixel on the canvas, and the way from there to its pixel j.
uvec2 corner_of_tile() { return uvec2(tile % TILES_X, tile / TILES_X) * TILE; }
uvec2 first_pixel() { return corner_of_tile() + morton(pixel_index(0u)); }
uvec2 step_to(uint j) { return morton(j * LANES); }

uint rank_at(uint i) { return UNLISTED ? i : pair_splats[i]; }

// Pair i's splat into the batch. rank: its place among the visible ones.
void load(uint i, uint rank) {
    TileSplat s = tile_splats[rank];
    TileReach r = tile_reaches[rank];
    batch_mean_conic[gl_LocalInvocationIndex] = s.mean_conic;
    batch_conic_color[gl_LocalInvocationIndex] = s.conic_color;
    batch_peaks[gl_LocalInvocationIndex] = vec2(r.peak, r.cutoff);
    batch_targets[gl_LocalInvocationIndex] = BY_PAIR ? i : r.splat;
}

// Visits the splats that touch the subgroup's pixels, of LANES from splat `chunk` of the batch on.
// A list costs a short visit less time than the arithmetic of bits, and a long one more.
void visit_all(uint chunk, bool touches) {
    uvec4 touching = subgroupBallot(touches);
    if (LISTED) {
        uint first = gl_SubgroupID * LANES, behind = first + subgroupBallotBitCount(touching);
        wait_for_lanes();  // the last list is read no more
        if (touches)
            listed[first + subgroupBallotExclusiveBitCount(touching)] =
                chunk + gl_SubgroupInvocationID;
        wait_for_lanes();
        for (uint k = first; k < behind; ++k) visit(listed[k]);
        return;
    }
    for (uint w = 0u; w < WORDS; ++w)
        for (uint bits = touching[w]; bits != 0u; bits &= bits - 1u)
            visit(chunk + 32u * w + uint(findLSB(bits)));
}

void walk() {
    vec2 low = vec2(first_pixel() - morton(gl_SubgroupInvocationID)) + 0.5 - QUAD_MARGIN;
    vec2 high = low + vec2(morton(LANES * PER_LANE - 1u)) + 2.0 * QUAD_MARGIN;
    bool done = subgroupAll(finished());
    if (gl_LocalInvocationIndex == 0u) finished_subgroups = 0u;
    barrier();
    if (done && subgroupElect()) atomicAdd(finished_subgroups, 1u);
    uint own = begin + gl_LocalInvocationIndex, rank = own < end ? rank_at(own) : 0u;
    for (uint first = begin; first < end; first += BATCH) {
        barrier();
        if (finished_subgroups == gl_NumSubgroups) break;
        before_batch(first - begin);
        if (own < end) load(own, rank);
        own += BATCH;
        if (own < end) rank = rank_at(own);  // known by the time that it is needed
        barrier();
        uint in_batch = min(BATCH, end - first);
        for (uint chunk = 0u; chunk < in_batch && !done; chunk += LANES) {
            before_chunk(first - begin + chunk);
            uint mine = chunk + gl_SubgroupInvocationID;
            bool touches = mine < in_batch;
            if (CULL && touches) {
                vec4 m = batch_mean_conic[mine];
                touches = nearest(low - m.xy, high - m.xy, m.z, m.w, batch_conic_color[mine].x) <=
                          batch_peaks[mine].y;
            }
            visit_all(chunk, touches);
            done = subgroupAll(finished());
            if (done && subgroupElect()) atomicAdd(finished_subgroups, 1u);
        }
    }
}

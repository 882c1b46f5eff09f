// Backward by splat (Mallick et al. 2024, "Taming 3DGS"): a subgroup takes a bucket of splats of a
// tile, a lane one splat. Pixels pass the lanes one after another, so that each meets the splats
// front to back: at step i, lane l is at pixel i - l. A lane keeps its splat's nine moments in
// registers over all pixels, so nothing is reduced and every pair of tile and splat costs nine
// atomics.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#include "common.glsl"
#include "contract/image.glsl"
#include "contract/tiles.glsl"
#include "tiled/grid.glsl"
#include "tiled/packed.glsl"
#include "moments.glsl"
#include <atomics>

layout(local_size_x = 32) in;
layout(local_size_x_id = 0) in;  // LANES: one subgroup
layout(constant_id = 1) const uint LANES = 32u;
BUFFER_tile_starts(readonly)
BUFFER_pair_splats(readonly)
BUFFER_tile_splats(readonly)
BUFFER_tile_reaches(readonly)
BUFFER_frame(readonly)
SAMPLED_target
SAMPLED_d_image
#include "tiled/morton.glsl"
#include "tiled/bucket_state.glsl"

shared vec4 pixels[TILE_PIXELS];  // dL/dpixel, and x + TILE y within the tile
// dL/dpixel . (colour of this splat and all behind it), and T in front of it.
shared vec2 states[TILE_PIXELS];
shared float sums[GRADIENTS * LANES];
shared uint splats[LANES];  // of the lanes that have a sum

// Loads the pixels that the bucket can still change; returns their number.
uint load_pixels(uint tile, uint bucket) {
    uint live = 0u;
    ivec2 corner = ivec2(tile % TILES_X, tile / TILES_X) * int(TILE);
    for (uint first = 0u; first < TILE_PIXELS; first += LANES) {
        uint at = first + gl_SubgroupInvocationID;
        vec4 front = state_before(tile, bucket, at);
        bool lives = front.a >= T_MIN;
        uvec4 living = subgroupBallot(lives);
        if (lives) {
            uint i = live + subgroupBallotExclusiveBitCount(living);
            uvec2 place = morton(at);
            vec4 d = texelFetch(d_image, corner + ivec2(place), 0);
            vec4 final = texelFetch(target, corner + ivec2(place), 0);
            pixels[i] = vec4(d.rgb, float(place.x + TILE * place.y));
            vec3 rest = final.rgb + final.a * frame.background - front.rgb;
            states[i] = vec2(dot(d.rgb, rest) + d.a, front.a);
        }
        live += subgroupBallotBitCount(living);
    }
    return live;
}

void main() {
    uint bucket = group_index(), lane = gl_SubgroupInvocationID;
    uint tile = tile_of(bucket);
    if (tile == NO_TILE) return;
    uint pair = tile_starts[tile] + (bucket - first_bucket(tile)) * LANES + lane;
    uint live = load_pixels(tile, bucket);
    if (live == 0u) return;
    bool mine = pair < tile_starts[tile + 1u];
    uint rank = pair_splats[mine ? pair : pair - lane];
    TileSplat s = tile_splats[rank];
    TileReach r = tile_reaches[rank];
    vec4 m = s.mean_conic, c = s.conic_color;
    m.xy -= vec2(uvec2(tile % TILES_X, tile / TILES_X) * TILE) + 0.5;
    Moments moments = NO_MOMENTS;
    bool contributes = false;
    barrier();
    for (uint i = 0u; i < live + LANES - 1u; ++i) {
        uint p = i - lane;  // wraps to far behind the last before the first
        if (mine && p < live) {
            vec4 pixel = pixels[p];
            vec2 state = states[p];
            float y = floor(pixel.w / float(TILE));
            vec2 d = m.xy - vec2(pixel.w - float(TILE) * y, y);
            float unclamped = unclamped_alpha(r.peak, d, vec3(m.zw, c.x)),
                  alpha = min(unclamped, ALPHA_MAX);
            if (alpha >= ALPHA_MIN && state.y >= T_MIN) {
                contributes = true;
                float along = dot(pixel.rgb, c.yzw),
                      w = unclamped * (along * state.y - state.x) / (1.0 - alpha);
                add(moments,
                    moments_of(w, d, plain_conic(vec3(m.zw, c.x)), pixel.rgb * (alpha * state.y)));
                states[p] = vec2(state.x - state.y * alpha * along, state.y * (1.0 - alpha));
            }
        }
        subgroupMemoryBarrierShared();
        subgroupBarrier();
    }
    float own[GRADIENTS] = numbers_of(moments);
    // through shared memory, so that neighbouring lanes add to neighbouring words
    uvec4 contributing = subgroupBallot(contributes);
    uint place = subgroupBallotExclusiveBitCount(contributing),
         words = GRADIENTS * subgroupBallotBitCount(contributing);
    if (contributes) {
        splats[place] = r.splat;
        for (uint i = 0u; i < GRADIENTS; ++i) sums[GRADIENTS * place + i] = own[i];
    }
    barrier();
    for (uint i = lane; i < words; i += LANES)
        add_gradient(GRADIENT_STRIDE * splats[i / GRADIENTS] + i % GRADIENTS, sums[i]);
}

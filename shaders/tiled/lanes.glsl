// What every walk of a tile by subgroups starts with: pixels in Morton order, and how many lanes a
// subgroup has.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "tiled/morton.glsl"
#include "tiled/nearest.glsl"

layout(local_size_x = 256) in;
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint LANES = 32u;        // of a subgroup

// What lanes of the subgroup wrote to shared memory is there for the others.
void wait_for_lanes() {
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

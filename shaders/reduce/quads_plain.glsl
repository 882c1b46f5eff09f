// <quads>: helper lanes may be asleep, so a lane takes its three neighbours' values directly and
// only from those that contribute.
#extension GL_KHR_shader_subgroup_quad : require

// Sum over the quad of `value`; `lanes` is the mask of its contributing lanes. Right on
// contributing lanes.
float quad_sum(float value, uint lanes) {
    uint self = gl_SubgroupInvocationID & 3u;
    float h = subgroupQuadSwapHorizontal(value), v = subgroupQuadSwapVertical(value),
          d = subgroupQuadSwapDiagonal(value);
    return value + ((lanes >> (self ^ 1u) & 1u) != 0u ? h : 0.0) +
           ((lanes >> (self ^ 2u) & 1u) != 0u ? v : 0.0) +
           ((lanes >> (self ^ 3u) & 1u) != 0u ? d : 0.0);
}

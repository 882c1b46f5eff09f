// <turn>: four lanes, of four neighbouring blocks, take one splat at a time, the nearest that any of
// them has next. Larger groups wait too long for each other's lists.
#extension GL_KHR_shader_subgroup_quad : require
uint next_rank(uint own) {
    own = min(own, subgroupQuadSwapHorizontal(own));
    return min(own, subgroupQuadSwapVertical(own));
}

// <turn>: a subgroup takes one splat at a time, the nearest that any of its lanes has next, so that
// sums over lanes have something to sum.
#extension GL_KHR_shader_subgroup_arithmetic : require
uint next_rank(uint own) { return subgroupMin(own); }

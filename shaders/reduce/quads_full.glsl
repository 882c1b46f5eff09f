// <quads>: all four lanes of a quad stay awake, and diverged lanes meet again, by declaration
// (VK_KHR_shader_quad_control, VK_KHR_shader_maximal_reconvergence), so that two swaps sum a quad.
// Written as SPIR-V because glslang 12 does not know the GLSL extensions: 5088 RequireFullQuadsKHR
// needs capability 5087 QuadControlKHR; 6023 is MaximallyReconvergesKHR.
#extension GL_KHR_shader_subgroup_quad : require
#extension GL_EXT_spirv_intrinsics : require
spirv_execution_mode(extensions = ["SPV_KHR_quad_control"], capabilities = [5087], 5088);
spirv_execution_mode(extensions = ["SPV_KHR_maximal_reconvergence"], 6023);

// Sum over the quad of `value`, which is 0 on lanes that do not contribute.
float quad_sum(float value, uint lanes) {
    value += subgroupQuadSwapHorizontal(value);
    return value + subgroupQuadSwapVertical(value);
}

// <quads>: all four lanes of a quad stay alive, and diverged lanes meet again, by declaration (VK_KHR_shader_quad_control,
// VK_KHR_shader_maximal_reconvergence). Written as SPIR-V because glslang 12 does not know the GLSL extensions:
// 5088 RequireFullQuadsKHR needs capability 5087 QuadControlKHR; 6023 is MaximallyReconvergesKHR.
#extension GL_EXT_spirv_intrinsics : require
spirv_execution_mode(extensions = ["SPV_KHR_quad_control"], capabilities = [5087], 5088);
spirv_execution_mode(extensions = ["SPV_KHR_maximal_reconvergence"], 6023);

// <colors>: all SH coefficients of a splat are contiguous in the plane of sh0, whose width is their
// number.
VALUE_sh0(readonly)
vec3 sh_of(uint k, uint g) { return sh0(g * (planes.at[PLANE_sh0].width / 3u) + k); }

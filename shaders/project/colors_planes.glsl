// <colors>: a plane for each SH coefficient.
VALUE_sh0(readonly)
VALUE_shN(readonly)
vec3 sh_of(uint k, uint g) { return k == 0u ? sh0(g) : shN(k - 1u, g); }

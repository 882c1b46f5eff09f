// Real spherical harmonics up to degree 3 in the order and signs of the original 3DGS (basis as in
// Sloan, JCGT 2013).
#extension GL_EXT_control_flow_attributes : require

const float SH_C0 = 0.28209479177387814;
const float SH_C1 = 0.4886025119029199;
const float SH_C2[5] = float[](1.0925484305920792, -1.0925484305920792, 0.31539156525252005,
                               -1.0925484305920792, 0.5462742152960396);
const float SH_C3[7] =
    float[](-0.5900435899266435, 2.890611442640554, -0.4570457994644658, 0.3731763325901154,
            -0.4570457994644658, 1.445305721320277, -0.5900435899266435);

// Value of basis function k for a unit direction.
float sh_basis_of(uint k, vec3 n) {
    float x = n.x, y = n.y, z = n.z, xx = x * x, yy = y * y, zz = z * z;
    switch (k) {
    case 0u: return SH_C0;
    case 1u: return -SH_C1 * y;
    case 2u: return SH_C1 * z;
    case 3u: return -SH_C1 * x;
    case 4u: return SH_C2[0] * x * y;
    case 5u: return SH_C2[1] * y * z;
    case 6u: return SH_C2[2] * (2.0 * zz - xx - yy);
    case 7u: return SH_C2[3] * x * z;
    case 8u: return SH_C2[4] * (xx - yy);
    case 9u: return SH_C3[0] * y * (3.0 * xx - yy);
    case 10u: return SH_C3[1] * x * y * z;
    case 11u: return SH_C3[2] * y * (4.0 * zz - xx - yy);
    case 12u: return SH_C3[3] * z * (2.0 * zz - 3.0 * xx - 3.0 * yy);
    case 13u: return SH_C3[4] * x * (4.0 * zz - xx - yy);
    case 14u: return SH_C3[5] * z * (xx - yy);
    case 15u: return SH_C3[6] * x * (xx - 3.0 * yy);
    }
    return 0.0;
}

// Its gradient with respect to the components of the direction.
vec3 d_sh_basis_of(uint k, vec3 n) {
    float x = n.x, y = n.y, z = n.z, xx = x * x, yy = y * y, zz = z * z;
    switch (k) {
    case 1u: return vec3(0.0, -SH_C1, 0.0);
    case 2u: return vec3(0.0, 0.0, SH_C1);
    case 3u: return vec3(-SH_C1, 0.0, 0.0);
    case 4u: return SH_C2[0] * vec3(y, x, 0.0);
    case 5u: return SH_C2[1] * vec3(0.0, z, y);
    case 6u: return SH_C2[2] * vec3(-2.0 * x, -2.0 * y, 4.0 * z);
    case 7u: return SH_C2[3] * vec3(z, 0.0, x);
    case 8u: return SH_C2[4] * vec3(2.0 * x, -2.0 * y, 0.0);
    case 9u: return SH_C3[0] * vec3(6.0 * x * y, 3.0 * (xx - yy), 0.0);
    case 10u: return SH_C3[1] * vec3(y * z, x * z, x * y);
    case 11u: return SH_C3[2] * vec3(-2.0 * x * y, 4.0 * zz - xx - 3.0 * yy, 8.0 * y * z);
    case 12u: return SH_C3[3] * vec3(-6.0 * x * z, -6.0 * y * z, 6.0 * zz - 3.0 * xx - 3.0 * yy);
    case 13u: return SH_C3[4] * vec3(4.0 * zz - 3.0 * xx - yy, -2.0 * x * y, 8.0 * x * z);
    case 14u: return SH_C3[5] * vec3(2.0 * x * z, -2.0 * y * z, xx - yy);
    case 15u: return SH_C3[6] * vec3(3.0 * (xx - yy), -6.0 * x * y, 0.0);
    }
    return vec3(0.0);
}

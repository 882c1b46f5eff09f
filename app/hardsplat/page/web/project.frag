#version 300 es
// One pixel a splat: 3D Gaussian -> its mean, axes and colour on the image. EWA projection (Zwicker et al. 2001, eq. 31), as in
// shaders/include/projection.glsl of hardsplat; the frame is OpenCV's: +x right, +y down, +z forward.
precision highp float;
precision highp int;
precision highp usampler2D;

const float ALPHA_MIN = 1.0 / 255.0;
const float DILATION = 0.3;       // px^2, added to the diagonal of the 2D covariance
const float FRUSTUM_SLACK = 0.3;  // the Jacobian is evaluated at most this share of the half field of view outside the image
const float SH_C1 = 0.4886025119029199;

uniform usampler2D places;  // bits of x, y, z; upper bytes of the colour, and opacity
uniform usampler2D shapes;  // log scales in 10 bits each; rotation in bytes, the two lower bits of each colour, two bits of the rotation
#if SH_TEXTURES > 0
uniform usampler2D sh[SH_TEXTURES];  // a coefficient a component, its red, green, blue in bytes
#endif
uniform int count;
uniform mat4 world_to_camera;
uniform vec3 eye;           // world units
uniform vec2 focal, centre, size;  // px
uniform float near;         // world units
uniform vec2 scale_ends, color_ends;
uniform vec3 sh_steps;      // of degrees 1, 2, 3
#ifndef STREAMED
uniform float largest;      // component of a rotation
#endif

layout(location = 0) out uvec4 place;  // bits of the mean, px, and of the long axis, px
layout(location = 1) out uvec4 paint;  // bits of the length of the short axis, px; colour and opacity as halves

vec3 bytes(uint word) { return vec3(word & 255u, (word >> 8) & 255u, (word >> 16) & 255u); }
vec3 tens(uint word) { return vec3(word & 1023u, (word >> 10) & 1023u, (word >> 20) & 1023u) / 1020.0; }  // 0..1, and a little more

vec4 quaternion(uint word) {  // wxyz
#ifdef STREAMED
    vec3 v = (bytes(word) * (2.0 / 255.0) - 1.0) * sqrt(0.5);  // the others than the largest
    float w = sqrt(max(1.0 - dot(v, v), 0.0));
    uint which = word >> 30;
    return which == 0u ? vec4(w, v) : which == 1u ? vec4(v.x, w, v.yz) : which == 2u ? vec4(v.xy, w, v.z) : vec4(v, w);
#else
    vec3 v = (bytes(word) - 128.0) * (largest / 127.0);
    return vec4(sqrt(max(1.0 - dot(v, v), 0.0)), v);
#endif
}

mat3 rotation(vec4 q) {  // wxyz
    float w = q.x, x = q.y, y = q.z, z = q.w;
    return mat3(1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y),
                2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x),
                2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y));
}

vec3 color_from(vec3 n, ivec2 at) {  // what the coefficients of degree 1 and higher add, seen along n
    vec3 sum = vec3(0.0);
#if SH_TEXTURES > 0
    float x = n.x, y = n.y, z = n.z, xx = x * x, yy = y * y, zz = z * z;
    uvec4 c = texelFetch(sh[0], at, 0);
#define COEFFICIENT(word) (bytes(word) - 128.0)
    sum += sh_steps.x * SH_C1 * (-y * COEFFICIENT(c.x) + z * COEFFICIENT(c.y) - x * COEFFICIENT(c.z));
#if SH_TEXTURES > 1
    uvec4 d = texelFetch(sh[1], at, 0);
    sum += sh_steps.y * (1.0925484305920792 * (x * y * COEFFICIENT(c.w) - y * z * COEFFICIENT(d.x) - x * z * COEFFICIENT(d.z))
        + 0.31539156525252005 * (2.0 * zz - xx - yy) * COEFFICIENT(d.y) + 0.5462742152960396 * (xx - yy) * COEFFICIENT(d.w));
#endif
#if SH_TEXTURES > 2
    uvec4 e = texelFetch(sh[2], at, 0), f = texelFetch(sh[3], at, 0);
    sum += sh_steps.z * (-0.5900435899266435 * (y * (3.0 * xx - yy) * COEFFICIENT(e.x) + x * (xx - 3.0 * yy) * COEFFICIENT(f.z))
        + 2.890611442640554 * x * y * z * COEFFICIENT(e.y) + 1.445305721320277 * z * (xx - yy) * COEFFICIENT(f.y)
        - 0.4570457994644658 * (4.0 * zz - xx - yy) * (y * COEFFICIENT(e.z) + x * COEFFICIENT(f.x))
        + 0.3731763325901154 * z * (2.0 * zz - 3.0 * xx - 3.0 * yy) * COEFFICIENT(e.w));
#endif
#endif
    return sum;
}

void main() {
    ivec2 at = ivec2(gl_FragCoord.xy);
    place = uvec4(0u);
    paint = uvec4(0u);  // an opacity of 0 is not drawn
    if (at.y * textureSize(places, 0).x + at.x >= count) return;
    uvec4 stored = texelFetch(places, at, 0);
    vec3 mean = uintBitsToFloat(stored.xyz);
    vec3 p = (world_to_camera * vec4(mean, 1.0)).xyz;
    if (!(p.z >= near)) return;

    uvec2 shape = texelFetch(shapes, at, 0).xy;
    vec3 scale = exp(scale_ends.x + tens(shape.x) * (scale_ends.y - scale_ends.x));
    mat3 V = mat3(world_to_camera) * rotation(quaternion(shape.y));
    mat3 rows = transpose(mat3(V[0] * scale.x, V[1] * scale.y, V[2] * scale.z));
    vec2 slack = FRUSTUM_SLACK * 0.5 * size / focal;
    vec2 ratio = p.xy / p.z, uv = clamp(ratio, -centre / focal - slack, (size - centre) / focal + slack);
    vec3 a0 = focal.x / p.z * (rows[0] - uv.x * rows[2]), a1 = focal.y / p.z * (rows[1] - uv.y * rows[2]);
    vec3 cov = vec3(dot(a0, a0) + DILATION, dot(a0, a1), dot(a1, a1) + DILATION);
    vec3 area = cross(a0, a1);
    float sharp = dot(area, area), det = sharp + DILATION * (cov.x + cov.z - DILATION);

    float opacity = float(stored.w >> 24) / 255.0;
#ifdef ANTIALIASED
    opacity *= sqrt(sharp / det);
#endif
    if (!(opacity > ALPHA_MIN) || !(det > 0.0) || isinf(det)) return;

    // The eigenvector is taken from the row of (cov - lambda) that cannot vanish: axis-aligned and isotropic splats are safe.
    float lambda = 0.5 * (cov.x + cov.z) + length(vec2(0.5 * (cov.x - cov.z), cov.y));
    vec2 e = cov.x >= cov.z ? vec2(lambda - cov.z, cov.y) : vec2(cov.y, lambda - cov.x);
    float len = length(e);
    e = len > 1e-12 ? e / len : vec2(1.0, 0.0);
    vec2 middle = focal * ratio + centre, across = e * sqrt(lambda);
    float thin = sqrt(det / lambda), bound = sqrt(2.0 * log(opacity / ALPHA_MIN));
    vec2 reach = bound * (abs(across) + abs(thin * e.yx));
    if (any(lessThan(middle + reach, vec2(0.0))) || any(greaterThan(middle - reach, size))) return;

    vec3 fine = vec3((shape.y >> 24) & 3u, (shape.y >> 26) & 3u, (shape.y >> 28) & 3u);
    vec3 color = color_ends.x + (4.0 * bytes(stored.w) + fine) * ((color_ends.y - color_ends.x) / 1020.0);
    color = max(color + color_from(normalize(mean - eye), at), 0.0);
    place = floatBitsToUint(vec4(middle, across));
    paint = uvec4(floatBitsToUint(thin), packHalf2x16(color.rg), packHalf2x16(vec2(color.b, opacity)), 0u);
}

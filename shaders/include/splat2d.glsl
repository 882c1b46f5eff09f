// A 3D Gaussian on the image, and its opacity there; its colour is computed elsewhere. The includer
// has `camera` and `frame`.
#include "contract/splats.glsl"
#include "projection.glsl"
#include <lens>
#include "gaussian2d.glsl"

layout(constant_id = 1) const bool ANTIALIASED = false;

// False where nothing of it is to be seen, or a number is not finite: that would spread through its
// pixels into the gradients of others. opacity: the splat's, which becomes that of its projection.
bool splat2d_of(vec3 mean, vec4 quat, vec3 scale, inout float opacity, out Projection o,
                out Splat2D s) {
    if (!(opacity > ALPHA_MIN)) return false;
    float len = length(quat);
    if (!(len > 0.0) || isinf(len)) return false;
    o = project(camera, mean, quat / len, scale);
    if (!(o.p.z >= frame.near_plane && o.det > 0.0)) return false;
    if (ANTIALIASED) opacity *= compensation(o);
    if (!(opacity > ALPHA_MIN)) return false;
    quad_axes(o.cov, o.det, opacity, s.axis1, s.axis2);
    vec2 reach = abs(s.axis1) + abs(s.axis2);
    if (!(all(greaterThan(o.mean + reach, vec2(0.0))) &&
          all(lessThan(o.mean - reach, vec2(camera.size)))))
        return false;
    s.mean = o.mean;
    s.conic = conic_of(o.cov, o.det);
    return finite(vec4(o.mean, o.p.z, o.det)) && finite(vec4(s.conic, opacity)) &&
           finite(vec4(s.axis1, s.axis2));
}

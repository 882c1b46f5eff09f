// <intrinsics> of optim/begin_step.comp: what is trained of a camera, the logarithm of what both
// focal lengths are multiplied by and the shift of the centre in units of the focal lengths of the
// scene. So it means the same at every size of the photograph.
#include "planes.glsl"
VALUE_intrinsics(readonly)

Camera focused(Camera view) {
    vec3 change = intrinsics(view.number);
    view.centre += change.yz * view.focal;
    view.focal *= exp(change.x);
    return view;
}

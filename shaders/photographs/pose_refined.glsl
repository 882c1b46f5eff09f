// <pose> of optim/begin_step.comp: p = exp(turn) (R x + T + shift), what is trained on the left of
// the pose that the scene says.
#include "planes.glsl"
#include "se3.glsl"
VALUE_turn(readonly)
VALUE_shift(readonly)

Camera posed(Camera view, uint photograph) {
    mat3 R = turn_matrix(turn(photograph)) *
             transpose(mat3(view.world_to_camera[0].xyz, view.world_to_camera[1].xyz,
                            view.world_to_camera[2].xyz));
    vec3 given =
        vec3(view.world_to_camera[0].w, view.world_to_camera[1].w, view.world_to_camera[2].w);
    vec3 T = turn_matrix(turn(photograph)) * (given + shift(photograph));
    mat3 rows = transpose(R);
    for (uint i = 0u; i < 3u; ++i) view.world_to_camera[i] = vec4(rows[i], T[i]);
    view.position = -(rows * T);
    return view;
}

// The gradients of all planes of one kind of items, from <gradient>, handed to <sink>: stored, or
// taken by Adam. A workgroup takes GROUP items of one plane as a stream of vec4 in the order of
// memory. Workgroups of the same items run together (x is the plane), so that the gradients they
// share are in the cache. An item that this step does not see hands over zeros: the published Adam
// moves every splat by its momentum at every step.
#include "common.glsl"
#include "contract/trained.glsl"

layout(local_size_x = 192) in;  // one for four floats of GROUP vec3, of which most planes are
layout(local_size_x_id = 25) in;
const uint LANES = gl_WorkGroupSize.x;  // at most GROUP
// Items that are not seen are left alone instead.
layout(constant_id = 0) const bool VISIBLE_ONLY = false;

UNIFORM_planes
BUFFER_frame(readonly)
layout(buffer_reference, scalar, buffer_reference_align = 16) restrict buffer any_gradient_plane {
    vec4 at[];
};

// items_of(plane), visible(item, items)
#include <items>
#ifndef FILLED_items
// The kind of items: photographs and cameras, of which a step sees one, or texels of the sky.
layout(constant_id = 26) const uint KIND = 0u;
const uint CAMERAS = 1u, TEXELS = 2u;
uint items_of(Plane plane) { return plane.items; }
bool visible(uint item, uint items) {
    return KIND == TEXELS ? item < items : item == (KIND == CAMERAS ? frame.camera : frame.view);
}
#endif
// listed_plane(i)
#include <list>
#ifndef FILLED_list
layout(constant_id = 1) const uint FIRST_PLANE = 0u;
uint listed_plane(uint i) { return FIRST_PLANE + i; }  // all planes of a kind
#endif

bvec4 visible(uvec4 item, uint items) {
    return bvec4(visible(item.x, items), visible(item.y, items), visible(item.z, items),
                 visible(item.w, items));
}

// Whether the SH degree in use has this plane.
bool in_use(Plane plane) {
    return plane.source != GRADIENT_SH ||
           plane.band < (frame.sh_degree + 1u) * (frame.sh_degree + 1u);
}

// The items that numbers 4 i to 4 i + 3 of a plane belong to.
uvec4 items_at(uint i, uint width) {
    uvec4 number = 4u * i + uvec4(0u, 1u, 2u, 3u);
    return width == 3u ? number / 3u : width == 4u ? uvec4(i) : width == 2u ? number / 2u : number;
}

// begin_gradients(plane, first item of the workgroup, items), gradients_of(...), stand_already(...)
#include <gradient>
// begin_sink(), sink(...) for every four numbers, or sink_two(...) for two times four,
// end_sink(...)
#include <sink>

void main() {
    uint plane_index = listed_plane(gl_WorkGroupID.x),
         first_item = (gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y) * GROUP;
    Plane plane = planes.at[plane_index];
    uint items = items_of(plane);
    if (first_item >= items || plane.width == 0u) return;
    uint first = first_item / 4u * plane.width,
         behind = (min(GROUP, items - first_item) * plane.width + 3u) / 4u;
    begin_gradients(plane, first_item, items);
    begin_sink();
    for (uint t = gl_LocalInvocationID.x; t < behind; t += 2u * LANES) {
        uint i = first + t, k = i + LANES;
        if (t + LANES < behind)
            sink_two(plane, plane_index, i, items_at(i, plane.width), k, items_at(k, plane.width),
                     items);
        else sink(plane, plane_index, i, items_at(i, plane.width), items);
    }
    end_sink(plane, plane_index);
}

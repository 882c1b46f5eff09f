// <share>: a workgroup takes all visible splats for its tile. For frames whose pairs do not fit.
#include "contract/tiles.glsl"
BUFFER_counts(readonly)

bool take_share() {
    tile = group_index();
    begin = 0u;
    end = counts.visible;
    return tile < TILES;
}
vec4 state_in_front(uint j) { return vec4(0.0, 0.0, 0.0, 1.0); }

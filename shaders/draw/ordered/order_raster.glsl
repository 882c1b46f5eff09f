// <order>: the state is the colour attachment, read back as input attachment in rasterization order
// (VK_EXT_rasterization_order_attachment_access); every fragment must write it, unchanged if it has
// nothing to add.
#include "contract/draw.glsl"
INPUT_state
layout(location = 0) out vec4 state_after;

#define ORDER_BEGIN(before) vec4 before = subpassLoad(state);
#define ORDER_END(after) state_after = after;

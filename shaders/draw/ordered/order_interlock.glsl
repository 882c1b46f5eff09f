// <order>: fragments of one pixel take turns in the order of their splats
// (GL_ARB_fragment_shader_interlock); state is a storage image.
#include "contract/draw.glsl"
#extension GL_ARB_fragment_shader_interlock : require
layout(pixel_interlock_ordered) in;
LOADSTORE_state(STATE_FORMAT)

// Macros because begin and end may stand in main() only. Between them: a load, arithmetic, a store.
#define ORDER_BEGIN(before)                                          \
    beginInvocationInterlockARB();                                   \
    vec4 before = imageLoad(state, ivec2(gl_FragCoord.xy));
#define ORDER_END(after)                                             \
    imageStore(state, ivec2(gl_FragCoord.xy), after);                \
    endInvocationInterlockARB();

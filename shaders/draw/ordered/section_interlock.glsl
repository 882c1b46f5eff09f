// <section>: one critical section around loads and stores of `blocks`
// (GL_ARB_fragment_shader_interlock). Macros: it must stand in main().
#include "contract/draw.glsl"
#extension GL_ARB_fragment_shader_interlock : require
layout(pixel_interlock_ordered) in;
BUFFER_blocks(coherent)
#define SECTION_BEGIN beginInvocationInterlockARB();
#define SECTION_END endInvocationInterlockARB();

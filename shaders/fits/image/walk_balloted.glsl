// <walk>: a subgroup has a tile. Its lanes test a blob each, and all walk the set bits of their
// ballot in order: nothing is listed, counted or sorted ("balloted splatting" of slang's samples,
// 2025).
#include "fits/image/every_blob.glsl"

const uint WORDS = (LANES + 31u) / 32u;

void walk() {
    bool done = subgroupAll(finished());
    for (uint first = 0u; first < counts.visible && !done; first += LANES) {
        uint mine = first + gl_SubgroupInvocationID;
        uvec4 touching = subgroupBallot(mine < counts.visible && touches(mine));
        if (touching == uvec4(0u)) continue;
        for (uint w = 0u; w < WORDS; ++w)
            for (uint bits = touching[w]; bits != 0u; bits &= bits - 1u)
                visit(first + 32u * w + uint(findLSB(bits)));
        done = subgroupAll(finished());
    }
}

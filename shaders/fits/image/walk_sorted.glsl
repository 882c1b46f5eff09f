// <walk>: a workgroup has a tile. Its threads list the blobs that touch it through a counter in
// shared memory, which mixes them up; a bitonic sort (Batcher 1968) puts them in order again
// ("diff-splatting" of slang's samples). A list that might overflow is drawn before it goes on.
#include "fits/image/every_blob.glsl"

// Blobs that the list holds, and that are tested between two looks at its length.
const uint LISTED = 1024u, ROUND = 512u;
const uint NONE = 0xFFFFFFFFu;
shared uint list[LISTED], listed, finished_subgroups;

// n: a power of two.
void sort_list(uint n) {
    for (uint run = 2u; run <= n; run <<= 1u)
        for (uint apart = run >> 1u; apart > 0u; apart >>= 1u) {
            for (uint pair = gl_LocalInvocationIndex; pair < n / 2u; pair += gl_WorkGroupSize.x) {
                uint i = 2u * pair - (pair & (apart - 1u)), low = list[i], high = list[i + apart];
                if ((low > high) == ((i & run) == 0u)) {
                    list[i] = high;
                    list[i + apart] = low;
                }
            }
            barrier();
        }
}

void walk() {
    uint t = gl_LocalInvocationIndex;
    if (t == 0u) listed = finished_subgroups = 0u;
    bool done = false;
    barrier();
    for (uint first = 0u; first < counts.visible; first += ROUND) {
        uint behind = min(first + ROUND, counts.visible);
        for (uint i = first + t; i < behind; i += gl_WorkGroupSize.x)
            if (touches(i)) list[atomicAdd(listed, 1u)] = i;
        barrier();
        uint count = listed;
        barrier();  // before anybody lists more
        if (count <= LISTED - ROUND && behind < counts.visible) continue;
        uint n = 1u;
        while (n < count) n <<= 1u;
        for (uint i = count + t; i < n; i += gl_WorkGroupSize.x) list[i] = NONE;
        barrier();
        sort_list(n);
        for (uint k = 0u; k < count && !done; ++k) {
            visit(list[k]);
            if (k % LANES == LANES - 1u || k == count - 1u) {
                done = subgroupAll(finished());
                if (done && subgroupElect()) atomicAdd(finished_subgroups, 1u);
            }
        }
        barrier();
        if (finished_subgroups == gl_NumSubgroups) break;
        if (t == 0u) listed = 0u;
        barrier();
    }
}

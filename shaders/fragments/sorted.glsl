// Puts a list of fragments in order. The includer has `fragments`.

const uint MOST_VISITS = 1u << 26;

// The first of a list's fragments once they are in order. The draw began with the nearest splat and the list with the fragment that came last, so most
// fragments go in front of all before them; one that came out of turn is put where it belongs. A list whose end is never reached must not hang the device.
uint sorted(uint at) {
    uint front = NO_FRAGMENT, front_rank = NO_FRAGMENT, visits = MOST_VISITS;
    while (at != NO_FRAGMENT && visits > 0u) {
        --visits;
        uint rank = fragments[at].rank, next = fragments[at].next;
        if (rank < front_rank) {
            fragments[at].next = front;
            front = at;
            front_rank = rank;
        } else {
            uint before = front, behind = fragments[front].next;
            while (behind != NO_FRAGMENT && fragments[behind].rank < rank && visits > 0u) {
                --visits;
                before = behind;
                behind = fragments[behind].next;
            }
            fragments[at].next = behind;
            fragments[before].next = at;
        }
        at = next;
    }
    return front;
}

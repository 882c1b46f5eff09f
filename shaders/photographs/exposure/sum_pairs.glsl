// Shared memory that sum_all takes.
const uint AT_ONCE = 26u, HALF = GROUP / 2u, SUM_PAIRS = AT_ONCE / 2u * HALF;

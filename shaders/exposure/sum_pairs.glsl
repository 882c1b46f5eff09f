// Shared memory that sum_all takes.
const uint AT_ONCE = 26u, HALF = gl_WorkGroupSize.x * gl_WorkGroupSize.y / 2u, SUM_PAIRS = AT_ONCE / 2u * HALF;

// <checkpoint>: nothing is kept.
void before_chunk(uint i) {}
void end_buckets() {}

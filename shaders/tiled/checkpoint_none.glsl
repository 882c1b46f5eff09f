// <checkpoint>: nothing is kept.
void before_chunk(uint i) {}
void begin_buckets() {}
void end_buckets() {}

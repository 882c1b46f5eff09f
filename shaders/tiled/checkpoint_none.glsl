// <checkpoint>: nothing is kept.
void begin_bucket(uint bucket) {}
void end_buckets() {}

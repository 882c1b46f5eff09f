// <turn>: each lane goes through its own list.
uint next_rank(uint own) { return own; }

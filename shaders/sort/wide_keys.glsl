// How many keys there are, and blocks of them. The includer has `counts`.
uint key_count() { return PAIRS ? counts.pairs : FIRST ? counts.splats : counts.visible; }
uint blocks_in_use() { return (key_count() + KEYS - 1u) / KEYS; }

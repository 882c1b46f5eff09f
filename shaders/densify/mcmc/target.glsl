// The splats after growth by a twentieth, as far as capacity allows; the host knows this number too
// (app/hardsplat/train/strategies/mcmc.py: grown).
uint target() { return min(counts.splats + counts.splats / 20u, counts.capacity); }

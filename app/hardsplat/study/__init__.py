"""Measurements of rasterizers and of settings: bench, sweep, compare, doctor."""

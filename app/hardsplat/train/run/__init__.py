"""A run from its scene to its result folder."""

"""A training step, and what is done between steps."""

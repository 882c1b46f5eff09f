"""Trains named presets on several scenes and seeds, and puts what came of them in one table; see
docs/guide/quality.md."""

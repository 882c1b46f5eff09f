"""Settings by their owners, presets, and the file saved with a result."""

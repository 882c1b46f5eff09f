"""The window: trained splats, and trainings while they run."""

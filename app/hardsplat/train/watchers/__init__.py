"""What follows a run: its history, logs, windows."""

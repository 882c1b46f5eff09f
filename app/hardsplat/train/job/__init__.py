"""What is decided before the first step."""

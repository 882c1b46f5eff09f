"""What there is to choose from, a row each, and the table of trained quantities."""

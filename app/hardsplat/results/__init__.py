"""Result folders: what is in them, and how other commands find it."""

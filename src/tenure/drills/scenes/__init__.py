"""The scenes: one drill a file, and the book that lists them in reading order."""

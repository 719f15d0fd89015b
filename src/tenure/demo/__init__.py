"""The demo: a small shop with three real workers, keys to disturb them, and a tour where there is no terminal."""

"""The demo: a small shop with three real workers, keys to hurt them with, and a tour for whoever has no keys."""

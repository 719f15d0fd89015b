"""Drills: races forced on a real Postgres with real processes, each ending in assertions anyone can check."""

"""The process that claims, runs and settles: one loop or one promise a file. `worker.py` puts them together."""

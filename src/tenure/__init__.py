"""Durable work in Postgres: a job with tenure is never lost."""

__version__ = "0.1.0"

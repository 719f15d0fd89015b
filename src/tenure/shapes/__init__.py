"""Shapes of durable work, each built from public verbs; none imports another."""

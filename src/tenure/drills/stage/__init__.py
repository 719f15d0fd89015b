"""The stage: a throw-away schema, real processes, what may be done to them, and the scenes that are made of it."""

"""The actors: programs that a drill starts as separate processes, and what they share."""

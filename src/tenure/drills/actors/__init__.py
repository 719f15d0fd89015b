"""The actors: programs that a drill starts as processes of their own, and what they share."""

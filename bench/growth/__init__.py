"""What grows in production, and what it does to the rate."""

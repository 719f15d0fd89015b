"""What the author of a handler sees: the inbox, its handlers, and the job they are called with."""

"""Other queues on the same server, with the same rows of the table."""

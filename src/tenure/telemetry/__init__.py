"""What a worker tells about itself: traces, logs, metrics, health. Events are where all of it comes from."""

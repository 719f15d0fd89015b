"""Small applications for worker processes."""

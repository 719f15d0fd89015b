"""What the faces share at a terminal of this machine: lines and marks, signals, a browser, what counts as loopback."""

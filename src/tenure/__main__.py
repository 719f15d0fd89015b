"""`python -m tenure` is `tenure`."""

from .cli import main

main()

"""The commands that `manage.py` has from Tenure: one, with all of ours below it."""

"""Tenure in other people's frameworks: each room here is imported only by those who have its framework."""

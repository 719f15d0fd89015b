"""Measurements, as ratios taken within one run: machines are noisy, absolute times lie."""

"""Elementwise ops: arithmetic, comparisons, complex numbers, rounding, special functions."""

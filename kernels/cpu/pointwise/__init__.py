"""Pointwise kernels: scalar bodies as loops, by NumPy or compiled, and special functions."""

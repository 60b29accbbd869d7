"""Pointwise kernels: scalar bodies as NumPy calls or compiled loops, and special functions."""

"""Scalar bodies as loops over arrays, by NumPy or compiled; functions that both of these lack."""

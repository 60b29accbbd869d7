"""Arithmetic sequences and random numbers, written into CUDA arrays."""

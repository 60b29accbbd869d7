"""Ranges and random numbers, written into CUDA arrays."""

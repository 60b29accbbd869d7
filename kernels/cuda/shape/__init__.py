"""Copies that change dtype, order or position, on CUDA arrays."""

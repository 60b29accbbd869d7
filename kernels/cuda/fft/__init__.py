"""Discrete Fourier transforms, on CUDA arrays."""

"""Discrete Fourier transforms on the CPU."""

"""Discrete Fourier transforms, and short-time transforms of signals."""

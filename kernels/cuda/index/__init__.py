"""Reads and writes that indices select, on CUDA arrays."""

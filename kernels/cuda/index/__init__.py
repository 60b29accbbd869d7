"""Indexed reads and writes on CUDA arrays."""

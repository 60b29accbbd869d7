"""Kernels for small arrays: what depends on layouts alone is decided once, not at each call."""

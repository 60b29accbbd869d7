"""Kernels for small arrays, with choices that are made once per layout instead of per call."""

"""Numba's compiler with a disk cache of our own, launches on threads, and walks through arrays."""

"""Numba's compiler with a separate disk cache, launches on threads, and loops over arrays."""

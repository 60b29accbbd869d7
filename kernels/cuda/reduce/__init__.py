"""Reductions, cumulative ops and sorting, on CUDA arrays."""

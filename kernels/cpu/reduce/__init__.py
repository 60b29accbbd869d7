"""Reductions, cumulative ops and sorting on the CPU."""

"""Ops along axes: sums, extremes, norms, order statistics, cumulative ops, sorting, histograms."""

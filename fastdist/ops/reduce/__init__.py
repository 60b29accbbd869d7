"""Sums, extremes, norms, quantiles, cumulative ops, sorting, histograms."""

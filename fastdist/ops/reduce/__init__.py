"""Reductions and related ops: sums, extremes, norms, quantiles, cumulative ops, sorting,
histograms.
"""

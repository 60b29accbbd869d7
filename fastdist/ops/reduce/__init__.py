"""Reductions: sums, extremes, norms, quantiles, histograms; also cumulative ops and sorting."""

"""Ops that create tensors: from data, filled with numbers, as ranges, or at random."""

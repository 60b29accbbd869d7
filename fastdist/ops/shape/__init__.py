"""Ops that view, copy, join, split and reorder tensors, without arithmetic."""

"""Ops that make tensors: from data, filled, ranges, random draws."""

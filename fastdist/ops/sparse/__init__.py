"""Ops on sparse COO tensors: construction, conversion, products, and rules for dense ops."""

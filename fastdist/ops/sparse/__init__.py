"""Ops on sparse COO tensors: construction, conversion, products, and rules of dense ops."""

"""Wrappers of modules that recompute activations in the backward pass, in PyTorch's package."""

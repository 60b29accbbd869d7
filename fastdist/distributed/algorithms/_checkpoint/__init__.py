"""Wrappers of modules that compute activations again in the backward pass: PyTorch's place."""

"""Module wrappers that recompute activations in the backward pass, under PyTorch's path."""

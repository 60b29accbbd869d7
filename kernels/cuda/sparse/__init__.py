"""Kernels of sparse tensors and of updates of few rows, on CUDA arrays."""

"""Kernels of neural networks on CUDA arrays: convolution, pooling, attention, losses."""

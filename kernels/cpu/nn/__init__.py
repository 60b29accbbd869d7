"""Kernels of neural networks on the CPU: convolution, pooling, attention, normalisation, losses."""

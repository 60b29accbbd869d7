"""Benchmarks on GPUs, and the Python overhead of GPU calls with kernels that do nothing."""

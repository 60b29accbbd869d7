"""Benchmarks on GPUs, and the Python cost of calls on a GPU whose kernels are free."""

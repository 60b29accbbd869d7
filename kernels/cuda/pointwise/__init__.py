"""CUDA C++ source for scalar bodies, and its launches on CUDA arrays."""

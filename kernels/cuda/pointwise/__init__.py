"""Scalar bodies as CUDA C++ text, and their launches, on CUDA arrays."""

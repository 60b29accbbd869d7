"""CUDA C++ headers that texts of several packages begin with."""

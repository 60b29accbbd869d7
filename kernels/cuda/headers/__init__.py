"""CUDA C++ headers that the sources of several packages use."""

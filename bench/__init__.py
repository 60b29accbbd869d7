"""Benchmarks, compared with PyTorch if it is installed: `python -m bench`."""

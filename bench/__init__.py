"""Benchmarks, each beside PyTorch where it is installed: `python -m bench`."""

"""Benchmarks, each against PyTorch where it is installed: `python -m bench`."""

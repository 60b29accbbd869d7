"""The module `torch` where fastdist replaces PyTorch: fastdist's names, and a PyTorch version."""

from __future__ import annotations

from fastdist import as_torch

as_torch.fill_torch(globals())

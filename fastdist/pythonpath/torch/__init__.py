"""The module `torch` in processes where fastdist replaces PyTorch: its names, and a version."""

from __future__ import annotations

from fastdist import as_torch

as_torch.fill_torch(globals())

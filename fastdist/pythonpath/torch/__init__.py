"""The module `torch` of a process that takes fastdist for it: its names, and PyTorch's version."""

from __future__ import annotations

from fastdist import as_torch

as_torch.fill_torch(globals())

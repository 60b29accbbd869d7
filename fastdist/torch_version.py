"""`TorchVersion`, where PyTorch's programs look for it."""

from __future__ import annotations

from .core.version import TORCH_VERSION, TorchVersion

__all__ = ["TorchVersion", "__version__"]

__version__ = TORCH_VERSION

"""`TorchVersion`, in the module from which programs for PyTorch import it."""

from __future__ import annotations

from .core.missing import show_public
from .core.version import TORCH_VERSION, TorchVersion

__all__ = ["TorchVersion", "__version__"]

__version__ = TORCH_VERSION

show_public(__name__)

"""`torch.version`: which PyTorch's names are followed, and what GPUs it was built for."""

from __future__ import annotations

from .core.missing import show_public
from .core.version import TORCH_VERSION

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

__version__ = TORCH_VERSION
debug = False
# The supported GPUs depend on CuPy, whose own version names its CUDA.
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version = "fastdist"

show_public(__name__)

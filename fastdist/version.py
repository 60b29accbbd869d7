"""`torch.version`: the PyTorch release whose names fastdist has, and the supported GPU software."""

from __future__ import annotations

from .core.missing import show_public
from .core.version import TORCH_VERSION

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

__version__ = TORCH_VERSION
debug = False
# None: CuPy determines which GPUs are supported, and reports the CUDA version of its build.
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version = "fastdist"

show_public(__name__)

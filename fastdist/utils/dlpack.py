"""DLPack's functions under PyTorch's name: `from fastdist.utils.dlpack import from_dlpack`."""

from __future__ import annotations

from ..core.missing import explain_missing
from ..tensor.dlpack import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]

explain_missing(__name__)

"""Linear algebra under PyTorch's names: `fastdist.linalg.X`."""

from __future__ import annotations

from .core.errors import LinAlgError as LinAlgError
from .core.missing import explain_missing
from .namespace.load import LINALG as _LINALG

globals().update(_LINALG)
__all__ = sorted({*_LINALG, "LinAlgError"})  # noqa: PLE0605 (the catalogue says its names)

explain_missing(__name__)

"""Linear algebra under PyTorch's names: `fastdist.linalg.X`."""

from __future__ import annotations

from .core.errors import LinAlgError as LinAlgError
from .core.missing import explain_missing, refusing
from .namespace.load import LINALG as _LINALG

_NO_LDL = (
    "symmetric matrices are not factored so; use linalg.cholesky_ex where they are "
    "positive-definite, linalg.lu_factor and linalg.lu_solve where they are not"
)
ldl_factor = refusing(__name__, "ldl_factor", _NO_LDL)
ldl_factor_ex = refusing(__name__, "ldl_factor_ex", _NO_LDL)
ldl_solve = refusing(__name__, "ldl_solve", _NO_LDL)
_REFUSED = {"ldl_factor", "ldl_factor_ex", "ldl_solve"}
globals().update(_LINALG)
__all__ = sorted({*_LINALG, *_REFUSED, "LinAlgError"})  # noqa: PLE0605 (the catalogue says its names)

explain_missing(__name__)

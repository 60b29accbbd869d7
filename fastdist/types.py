"""Type names that programs for PyTorch use in signatures."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from .core.device import Device as _Device
from .core.dtypes import DType as _DType
from .core.missing import explain_missing as _explain_missing
from .tensor.layout import Size as _Size
from .tensor.tensor import Tensor as _Tensor

__all__ = ["Device", "FileLike", "Number"]

Number = builtins.int | builtins.float | builtins.bool
Device = _Device | str | builtins.int | None
FileLike = str
_bool, _int, _float, _dtype, _device = bool, int, float, _DType, _Device
_size = _Size | list[int] | tuple[int, ...]
_TensorOrTensors = _Tensor | Sequence[_Tensor]

_explain_missing(__name__)

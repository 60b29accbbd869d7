"""fastdist: distributed automatic differentiation with PyTorch's names, on NumPy, Numba, CuPy and ZeroMQ."""

from __future__ import annotations

import os as _os

__version__ = "0.1.0"

# The kernels live in the top-level folder kernels/ and are imported as fastdist.kernels; a wheel holds them inside the
# package, an uninstalled or editable checkout has them beside it.
_beside = _os.path.dirname(_os.path.dirname(_os.path.abspath(__file__)))
if _os.path.isfile(_os.path.join(_beside, "kernels", "__init__.py")) and _beside not in __path__:
    # Appended last: only `kernels` is looked for there, for everything else the package itself comes first.
    __path__.append(_beside)

# First of all: OpenBLAS reads its core type when NumPy loads it.
from .core import blas as _blas

_blas.choose_core()

from .core.device import Device as device
from .core.dtypes import bool_ as bool
from .core.dtypes import float16, float32, float64, int8, int16, int32, int64, uint8
from .dispatch.promotion import get_default_dtype, set_default_dtype
from .graph.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .namespace.load import NAMES as _NAMES
from .tensor.parameter import Parameter as _Parameter
from .tensor.tensor import Size, Tensor

globals().update(_NAMES)
double, float, half = float64, float32, float16
long, int, short = int64, int32, int16

"""Distributed automatic differentiation with PyTorch's names, on NumPy, Numba, CuPy and ZeroMQ.

`import fastdist as torch` runs a PyTorch script as far as the names go. The ops are here at once;
`nn`, `optim`, `autograd`, `distributed` and the other rooms are imported when they are first named.
"""

from __future__ import annotations

import importlib as _importlib
import math as _math
import os as _os
from typing import Any as _Any

from .core.quiet_interrupt import end_quietly_if_command as _end_quietly_if_command
from .core.version import __version__ as __version__

_end_quietly_if_command()

# The kernels live in the top-level folder kernels/ and are imported as fastdist.kernels. A wheel
# holds them inside the package; an uninstalled or editable checkout has them beside it.
_here = _os.path.dirname(_os.path.abspath(__file__))
_beside = _os.path.dirname(_here)
if not _os.path.isdir(_os.path.join(_here, "kernels")) and _os.path.isfile(
    _os.path.join(_beside, "kernels", "__init__.py")
):
    # Appended last: only `kernels` is looked for there, for all else the package comes first.
    __path__.append(_beside)

# First of all: OpenBLAS reads its core type when NumPy loads it.
from .core import blas as _blas

_blas.choose_core()

from .core.device import Device as device
from .core.dtypes import DType as dtype
from .core.dtypes import bool_ as bool
from .core.dtypes import float16, float32, float64, int8, int16, int32, int64, uint8
from .core.generator import Generator, default_generator, initial_seed, manual_seed, seed
from .core.missing import missing as _missing
from .dispatch.promotion import get_default_dtype, set_default_dtype
from .graph.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from .namespace.limits import finfo, iinfo
from .namespace.load import NAMES as _NAMES
from .namespace.threads import get_num_threads, set_num_threads
from .namespace.typed_tensors import TYPED_TENSORS as _TYPED_TENSORS

# By name, since type checkers would take `fastdist.tensor` for the package of that name.
from .ops import return_types
from .ops.creation import tensor as tensor
from .tensor.printing import set_printoptions
from .tensor.tensor import Size, Tensor

globals().update(_NAMES)
globals().update(_TYPED_TENSORS)
double, float, half = float64, float32, float16
long, int, short = int64, int32, int16
e, inf, nan, newaxis, pi = _math.e, _math.inf, _math.nan, None, _math.pi

_ROOMS = frozenset(
    ("autograd", "cuda", "data", "distributed", "futures", "info", "nn", "optim", "testing")
) | {"multiprocessing", "utils"}
__all__ = [
    "Generator",
    "Size",
    "Tensor",
    "bool",
    "default_generator",
    "device",
    "double",
    "dtype",
    "e",
    "enable_grad",
    "finfo",
    "float",
    "float16",
    "float32",
    "float64",
    "get_default_dtype",
    "get_num_threads",
    "half",
    "iinfo",
    "inf",
    "inference_mode",
    "initial_seed",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_grad_enabled",
    "long",
    "manual_seed",
    "nan",
    "newaxis",
    "no_grad",
    "pi",
    "return_types",
    "seed",
    "set_default_dtype",
    "set_grad_enabled",
    "set_num_threads",
    "set_printoptions",
    "short",
    "uint8",
]
__all__ += sorted({**_NAMES, **_TYPED_TENSORS})  # noqa: PLE0605 (the catalogue says its names)


def __getattr__(name: str) -> _Any:
    """Import a room when it is first named."""
    if name in _ROOMS:
        return _importlib.import_module(f"{__name__}.{name}")
    raise _missing(__name__, name)


def __dir__() -> list[str]:
    """Return the names of all ops and rooms."""
    return sorted({*globals(), *_ROOMS})

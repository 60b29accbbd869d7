"""Distributed automatic differentiation with PyTorch's names, on NumPy, Numba, CuPy and ZeroMQ.

`import fastdist as torch` runs a PyTorch script if fastdist has the names that the script uses. The
ops are imported with this module; `nn`, `optim`, `autograd`, `distributed` and the other packages
are imported on first access.

The modules next to this file are PyTorch's public modules (`types.py`, `futures.py`, `jit.py` ...).
Some only re-export names from packages: type checkers look for files and run no import hook, so
`fastdist.futures` must be a file here. `cli.py`, `run.py`, `info.py`, `warm.py` and `__main__.py`
implement commands. `as_torch.py` has the finder for `import torch`.
"""

from __future__ import annotations

import importlib as _importlib
import math as _math
import os as _os
from typing import Any as _Any

from .core.version import __version__ as __version__
from .system.quiet_interrupt import end_quietly_if_command as _end_quietly_if_command

_end_quietly_if_command()

# The kernels are in the top-level folder kernels/, and are imported as fastdist.kernels. A wheel
# contains them inside the package. In a checkout they are next to the package.
_here = _os.path.dirname(_os.path.abspath(__file__))
_beside = _os.path.dirname(_here)
if not _os.path.isdir(_os.path.join(_here, "kernels")) and _os.path.isfile(
    _os.path.join(_beside, "kernels", "__init__.py")
):
    # Appended at the end, so that a name that exists in both folders is found in the package.
    __path__.append(_beside)

# These two statements precede all imports of NumPy, which loads OpenBLAS. OpenBLAS reads its core
# type when it is loaded.
from .system import blas as _blas

_blas.choose_core()

from .as_torch import ROOMS as _ROOMS
from .as_torch import find_torch_here as _find_torch_here
from .as_torch import install_as_torch
from .core.device import Device as device
from .core.device import get_default_device, set_default_device
from .core.dtypes import DType as dtype
from .core.dtypes import (
    bfloat16,
    complex32,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .core.dtypes import bool_ as bool
from .core.errors import KernelError as AcceleratorError
from .core.errors import OutOfMemoryError
from .core.folded_frames import fold as _fold
from .core.memory_format import FORMATS as _FORMATS
from .core.memory_format import OTHER_LAYOUTS as _OTHER_LAYOUTS
from .core.memory_format import MemoryFormat as memory_format
from .core.memory_format import MemoryLayout as layout
from .core.memory_format import sparse_coo, strided
from .core.missing import find_late as _find_late
from .core.moved_modules import find_moved_modules as _find_moved_modules
from .core.refused_finder import find_refused_modules as _find_refused_modules
from .graph.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from .namespace.homes import HOMES as _HOMES
from .namespace.limits import finfo, iinfo
from .namespace.load import NAMES as _NAMES
from .namespace.settings import SETTINGS as _SETTINGS
from .namespace.threads import get_num_threads, set_num_threads
from .namespace.typed_tensors import TYPED_TENSORS as _TYPED_TENSORS

# Imported under the same name explicitly: type checkers would otherwise resolve `fastdist.tensor`
# to the package of that name.
from .ops import return_types
from .ops.create.creation import tensor as tensor
from .random_numbers.generator import Generator, default_generator, initial_seed, manual_seed, seed
from .system.import_hooks import after_import as _after_import
from .tensor.dlpack import from_dlpack, to_dlpack
from .tensor.layout import Size
from .tensor.printing import set_printoptions
from .tensor.promotion import get_default_dtype, set_default_dtype
from .tensor.tensor import Tensor
from .tensor.typed_storage import TYPED_STORAGES as _TYPED_STORAGES
from .tensor.typed_storage import TypedStorage, UntypedStorage, is_storage

globals().update(_NAMES)
globals().update(_TYPED_TENSORS)
globals().update(_TYPED_STORAGES)
globals().update(_SETTINGS)
globals().update(_FORMATS)
globals().update(_OTHER_LAYOUTS)
chalf, cfloat, cdouble = complex32, complex64, complex128
double, float, half = float64, float32, float16
long, int, short = int64, int32, int16
legacy_contiguous_format = _FORMATS["contiguous_format"]
e, inf, nan, newaxis, pi = _math.e, _math.inf, _math.nan, None, _math.pi

_find_torch_here()
_find_moved_modules()
_find_refused_modules()
__all__ = [
    "AcceleratorError",
    "Generator",
    "OutOfMemoryError",
    "Size",
    "Tensor",
    "TypedStorage",
    "UntypedStorage",
    "bfloat16",
    "bool",
    "cdouble",
    "cfloat",
    "chalf",
    "complex32",
    "complex64",
    "complex128",
    "default_generator",
    "device",
    "double",
    "dtype",
    "e",
    "enable_grad",
    "finfo",
    "float",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "get_default_device",
    "get_default_dtype",
    "get_num_threads",
    "half",
    "iinfo",
    "inf",
    "inference_mode",
    "initial_seed",
    "install_as_torch",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_grad_enabled",
    "is_storage",
    "layout",
    "legacy_contiguous_format",
    "long",
    "manual_seed",
    "memory_format",
    "nan",
    "newaxis",
    "no_grad",
    "pi",
    "return_types",
    "seed",
    "set_default_device",
    "set_default_dtype",
    "set_grad_enabled",
    "set_num_threads",
    "set_printoptions",
    "short",
    "sparse_coo",
    "strided",
    "to_dlpack",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
_made = {
    **_NAMES,
    **_TYPED_TENSORS,
    **_TYPED_STORAGES,
    **_SETTINGS,
    **_FORMATS,
    **_OTHER_LAYOUTS,
    **_HOMES,
}
__all__ += sorted(_made)  # noqa: PLE0605 (the catalogue says its names)

# einops looks for a backend class when it first sees a tensor, so the class must exist by then.
_after_import("einops._backends", f"{__name__}.utils.einops")


def __getattr__(name: str) -> _Any:
    """Import a public module, or the module that defines a name, on first access."""
    if name in _ROOMS:
        return _importlib.import_module(f"{__name__}.{name}")
    if name.startswith("_foreach_"):
        from .namespace.foreach import FOREACH as lists

        if name in lists:
            globals()[name] = lists[name]
            return lists[name]
    if name == "torch":
        return _importlib.import_module(__name__)  # `fastdist.torch` is this module, as in PyTorch
    if name in _HOMES:
        found = getattr(_importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
    try:
        return _find_late(__name__, name)
    except AttributeError as error:
        _fold(error)
        raise


def __dir__() -> list[str]:
    """Return the public names: ops, types and modules."""
    return sorted({*__all__, *_ROOMS, "__version__"})

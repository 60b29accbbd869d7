"""The numeric limits of a dtype: `finfo` and `iinfo`."""

from __future__ import annotations

import numpy as np

from ..core.dtypes import INTEGRAL, DType, float8_e5m2fnuz, float_limits
from ..core.errors import DTypeError
from ..core.folded_frames import folds
from ..core.short_repr import short_repr
from ..tensor.promotion import get_default_dtype

# PyTorch's value, from which programs derive tolerances; the step above 1 is really 0.25.
_EPS: dict[DType, float] = {float8_e5m2fnuz: 0.125}


class finfo:
    """The limits of a floating dtype, or of the real part of a complex dtype.

    `eps` is the step from 1 to the next number. `tiny` (also `smallest_normal`) is the smallest
    positive normal number. `resolution` is the precision in decimal digits.

    Raises  TypeError for any other dtype

    Args:
        type: The dtype; the default dtype if None.

    Example:
        >>> torch.finfo(torch.float32).max
        3.4028234663852886e+38
    """

    @folds
    def __init__(self, type: DType | None = None) -> None:
        dtype = get_default_dtype() if type is None else type
        if isinstance(dtype, DType):
            dtype = dtype.to_real()
        if not isinstance(dtype, DType) or not dtype.is_floating_point:
            raise DTypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle "
                f"'torch.finfo': got {short_repr(type if type is not None else dtype)}"
            )
        limits = float_limits(dtype)
        self.dtype = dtype.name
        self.bits = 8 * dtype.itemsize
        self.eps = _EPS.get(dtype, float(limits.eps))
        self.max = float(limits.max)
        self.min = float(limits.min)
        self.tiny = self.smallest_normal = float(limits.smallest_normal)
        self.resolution = 1.0 if dtype.is_float8 else float(f"1e-{limits.precision}")

    def __repr__(self) -> str:
        numbers = (self.resolution, self.min, self.max, self.eps, self.smallest_normal, self.tiny)
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        shown = ", ".join(f"{n}={x:g}" for n, x in zip(names, numbers, strict=True))
        return f"finfo({shown}, dtype={self.dtype})"


class iinfo:
    """The limits of an integer dtype.

    Raises  TypeError for a dtype that is not an integer dtype
    """

    @folds
    def __init__(self, type: DType) -> None:
        if not isinstance(type, DType) or type.category != INTEGRAL:
            raise DTypeError(
                "torch.iinfo() requires an integer input type. Use torch.finfo to handle "
                f"'torch.iinfo': got {short_repr(type)}"
            )
        limits = np.iinfo(type.numpy)
        self.dtype = type.name
        self.bits = int(limits.bits)
        self.max = int(limits.max)
        self.min = int(limits.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

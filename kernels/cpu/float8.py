"""Casts from and to the float8 types, which have 256 values each, with PyTorch's rounding.

All casts go through float32, as in PyTorch, so a float64 is rounded twice. ml_dtypes rounds to the
nearest value, ties to even. Two types need code here. float8_e4m3fn has no infinity, so numbers
beyond its range are clipped to the range. A float8_e8m0fnu is a power of two, stored as an exponent
without a sign.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fastdist.core.dtypes import FLOAT8

Array = Any


def wrote(x: Array, out: Array) -> bool:
    """If x or out has a float8 type, write x into out, of the same shape, and return True."""
    if x.dtype not in FLOAT8 and out.dtype not in FLOAT8:
        return False
    if x.dtype == out.dtype:
        np.copyto(out, x)
        return True
    if x.dtype in FLOAT8:
        x = to_wide(x)
    if x.dtype.kind == "c" and not _is_complex(out.dtype):
        x = x.real
    with np.errstate(all="ignore"):
        np.copyto(out, rounded(x, out.dtype) if out.dtype in FLOAT8 else x, casting="unsafe")
    return True


def _is_complex(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "c" or dtype.name == "complex32"


def to_wide(x: Array) -> Array:
    """Return an array of a float8 type as float32, and an array of complex32 as complex64."""
    if _is_complex(x.dtype):
        return x.astype(np.complex64)
    return _values_of(x.dtype)[x.view(np.uint8)]


def rounded(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return numbers rounded to a float8 type or to complex32."""
    if _is_complex(dtype):
        with np.errstate(all="ignore"):
            return np.asarray(np.asarray(x).astype(np.complex64).astype(dtype))
    with np.errstate(all="ignore"):
        return _rounded(np.asarray(x).astype(np.float32), dtype)


def _rounded(wide: Array, dtype: np.dtype[Any]) -> Array:
    name = dtype.name
    if name == "float8_e4m3fn":
        most = np.float32(448)
        return np.clip(wide, -most, most).astype(dtype)  # NaN remains NaN
    if name == "float8_e8m0fnu":
        return _exponents(wide).view(dtype)
    found = np.asarray(wide.astype(dtype))
    if name == "float8_e5m2":
        codes = found.view(np.uint8)
        codes |= np.isnan(wide)  # PyTorch writes this one of the three NaN codes
    return found


def _exponents(wide: Array) -> Array:
    """Return the codes of float8_e8m0fnu for float32 numbers: their exponents, after rounding to
    the nearest power of two. Ties go up; 0 and the smallest numbers give code 0, inf and NaN give
    255.

    Note    ml_dtypes before 0.6 rounds a tie to the even code
    """
    bits = np.ascontiguousarray(wide).view(np.uint32).reshape(np.shape(wide))
    exponent, fraction = (bits >> 23) & 0xFF, bits & 0x7FFFFF
    half = 0x400000
    is_up = (fraction > half) | ((fraction == half) & (exponent > 0))
    return np.minimum(exponent + is_up, 255).astype(np.uint8)


@functools.cache
def _values_of(dtype: np.dtype[Any]) -> Array:
    values: Array = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    values.flags.writeable = False
    return values

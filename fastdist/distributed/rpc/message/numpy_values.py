"""The encoding of NumPy's arrays, scalars and dtypes: a code, a shape and bytes, each checked."""

# Note [NumPy's own pickles]
# To read NumPy's own pickle of an array, the state of a dtype and of an array is set. NumPy trusts
# these states: if a dtype of objects has flags that say it has no objects, bytes from the sender
# can be used as pointers. Strict mode must not permit that. So arrays have their own encoding here,
# which is rebuilt by public functions only, and strict mode does not read NumPy's pickles. Arrays
# whose dtype has no code (objects, records, other packages' dtypes) use NumPy's pickles.

from __future__ import annotations

import functools
import math
import pickle
import re
import reprlib
from collections.abc import Callable
from typing import Any, Final, Literal

import numpy as np

from fastdist.core.errors import MessageError
from fastdist.system.shared_block import Passage

_CODE: Final = re.compile(r"[<>|][biufcmMSU][1-9]\d{0,8}(\[\d*[a-zA-Z]+\])?")
_MAX_DIMENSIONS: Final = 32
_CLASSES: Final = [np.dtype(code) for code in "?bhilqpBHILQPefdgFDGSUmM"]


def reducers() -> dict[type, tuple[Callable[[Any], Any], Callable[..., Any]]]:
    """Return the functions that reduce and rebuild each of NumPy's classes."""
    found: dict[type, tuple[Callable[[Any], Any], Callable[..., Any]]] = {
        np.ndarray: (_reduce_array, rebuild_array),
        Passage: (_reduce_passage, rebuild_array),
    }
    for dtype in _CLASSES:
        found[dtype.type] = (_reduce_scalar, rebuild_scalar)
        found[type(dtype)] = (_reduce_dtype, rebuild_dtype)
    return found


def rebuild_dtype(code: str) -> np.dtype[Any]:
    """Return the dtype of a code such as "<f8".

    Raises  MessageError for an invalid code
    """
    try:
        if isinstance(code, str) and _CODE.fullmatch(code):
            return np.dtype(code)
    except (TypeError, ValueError):
        pass  # the error is raised below, as for all other invalid codes
    raise MessageError(
        f"{reprlib.repr(code)} is not the code of a dtype of numbers, texts or times"
    )


def rebuild_array(code: str, shape: tuple[int, ...], order: str, data: Any) -> np.ndarray[Any, Any]:
    """Return the array with the elements in the bytes `data`, without a copy.

    Raises  MessageError if the bytes do not match the code and the shape
    """
    dtype = rebuild_dtype(code)
    if (
        not isinstance(shape, tuple)
        or len(shape) > _MAX_DIMENSIONS
        or not all(type(length) is int and 0 <= length < 2**63 for length in shape)
        or not isinstance(data, bytes | bytearray)
        or order not in ("C", "F")
        or math.prod(shape) * dtype.itemsize != len(data)
    ):
        # `reprlib` shortens the text: the shape may contain the same large tuple many times.
        raise MessageError(
            f"an array of {code}, shape {reprlib.repr(shape)}, order {reprlib.repr(order)} in "
            "bytes that do not fit"
        )
    in_order: Literal["C", "F"] = "F" if order == "F" else "C"
    if data:
        return np.frombuffer(data, dtype).reshape(shape, order=in_order)
    try:
        # An array without elements gets an empty buffer. np.empty would allocate one element, which
        # may have a gigabyte.
        return np.ndarray(shape, dtype, bytearray(), order=in_order)
    except ValueError as error:
        raise MessageError(f"an array of {code}, shape {shape}: {error}") from error


def rebuild_scalar(code: str, data: bytes) -> Any:
    """Return the NumPy scalar (a number, a text or a time) in the bytes `data`.

    Raises  MessageError if the bytes do not match the code
    """
    return rebuild_array(code, (), "C", data)[()]


@functools.lru_cache(256)
def _code_of(dtype: np.dtype[Any]) -> str | None:
    code = dtype.str
    return code if _CODE.fullmatch(code) and np.dtype(code) == dtype else None


def _reduce_dtype(dtype: np.dtype[Any]) -> Any:
    code = _code_of(dtype)
    return dtype.__reduce_ex__(5) if code is None else (rebuild_dtype, (code,))


def _reduce_scalar(scalar: np.generic[Any]) -> Any:
    code = _code_of(scalar.dtype)
    return scalar.__reduce_ex__(5) if code is None else (rebuild_scalar, (code, scalar.tobytes()))


def _reduce_passage(passage: Passage) -> Any:
    # Memory that processes share is local to this machine, so other workers get a copy.
    return _reduce_array(passage._array)


def _reduce_array(array: np.ndarray[Any, Any]) -> Any:
    code = _code_of(array.dtype)
    if code is None:
        return array.__reduce_ex__(5)
    is_fortran = array.flags.fnc
    whole = array.T if is_fortran else np.ascontiguousarray(array)
    data: Any = b""
    if array.size:
        # The PickleBuffer writes the bytes into the pickle without a copy. The receiver's array
        # uses the bytes of the received pickle directly.
        data = pickle.PickleBuffer(whole.reshape(-1).view(np.uint8).data)
    return rebuild_array, (code, array.shape, "F" if is_fortran else "C", data)

"""Element types: their names, NumPy twins, wire codes and PyTorch's promotion among them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .errors import DTypeError


class DType:
    """One element type. Interned: compare with `is`.

    Units   itemsize in bytes
    Note    `code` goes over the wire and never changes its meaning
    """

    __slots__ = (
        "code",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "name",
        "numpy",
        "rank",
    )

    def __init__(self, name: str, numpy_name: str, code: int, rank: int) -> None:
        self.name = name
        self.numpy = np.dtype(numpy_name)
        self.itemsize = int(self.numpy.itemsize)
        self.code = code
        self.rank = rank
        self.is_floating_point = self.numpy.kind == "f"
        self.is_complex = self.numpy.kind == "c"
        self.is_signed = self.numpy.kind in "ifc"

    def __repr__(self) -> str:
        return f"fastdist.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return from_code, (self.code,)


bool_: Final = DType("bool", "bool", 0, 0)
uint8: Final = DType("uint8", "uint8", 1, 1)
int8: Final = DType("int8", "int8", 2, 2)
int16: Final = DType("int16", "int16", 3, 3)
int32: Final = DType("int32", "int32", 4, 4)
int64: Final = DType("int64", "int64", 5, 5)
float16: Final = DType("float16", "float16", 6, 6)
float32: Final = DType("float32", "float32", 7, 7)
float64: Final = DType("float64", "float64", 8, 8)


class AbsentDType(DType):
    """A dtype of PyTorch's that fastdist does not have yet. Programs may name it, hold it in their
    tables and compare dtypes with it; what would need elements of it raises.
    """

    __slots__ = ()

    def __init__(self, name: str, itemsize: int, *, is_complex: bool) -> None:
        self.name = name
        self.itemsize = itemsize
        self.code, self.rank = -1, high_rank
        self.is_complex = is_complex
        self.is_floating_point = not is_complex
        self.is_signed = True

    @property
    def numpy(self) -> Any:  # type: ignore[override]
        """Raise: NumPy's twin is what is missing."""
        raise DTypeError(
            f"{self!r} is not there yet: fastdist computes in float16, float32 and float64, and "
            "in integers"
        )

    def __reduce__(self) -> Any:
        return _absent, (self.name,)


high_rank: Final = 9
bfloat16: Final = AbsentDType("bfloat16", 2, is_complex=False)
complex64: Final = AbsentDType("complex64", 8, is_complex=True)
complex128: Final = AbsentDType("complex128", 16, is_complex=True)


def _absent(name: str) -> DType:
    return {one.name: one for one in (bfloat16, complex64, complex128)}[name]


ALL: Final = (bool_, uint8, int8, int16, int32, int64, float16, float32, float64)
# What PyTorch calls them in errors, and in the names of storages and of old constructors.
WORDS: Final = {
    float64: "Double",
    float32: "Float",
    float16: "Half",
    int64: "Long",
    int32: "Int",
    int16: "Short",
    int8: "Char",
    uint8: "Byte",
    bool_: "Bool",
}
_BY_CODE: Final = {dtype.code: dtype for dtype in ALL}
_BY_NUMPY: Final = {dtype.numpy: dtype for dtype in ALL}


def from_code(code: int) -> DType:
    """Return the dtype of a wire code.

    Raises  DTypeError for a code that no version of fastdist has used
    """
    dtype = _BY_CODE.get(code)
    if dtype is None:
        raise DTypeError(f"unknown dtype code {code!r}; known are 0 to {max(_BY_CODE)}")
    return dtype


def from_numpy(numpy_dtype: np.dtype[Any]) -> DType:
    """Return the twin of a NumPy dtype.

    Raises  DTypeError where fastdist has none (complex, unsigned wider than 8 bits, strings,
            objects)
    """
    dtype = _BY_NUMPY.get(numpy_dtype)
    if dtype is None:
        known = ", ".join(dtype.name for dtype in ALL)
        raise DTypeError(f"can't convert an array of type {numpy_dtype}; supported are {known}")
    return dtype


def dtype_of(value: object) -> DType:
    """Return the dtype that a user named: a DType, or one of Python's float, int and bool.

    Raises  TypeError for anything else
    """
    if isinstance(value, DType):
        return value
    found = _OF_PYTHON.get(value) if isinstance(value, type) else None
    if found is None:
        raise DTypeError(f"expected a dtype such as fastdist.float32, got {value!r}")
    return found


_OF_PYTHON: Final = {float: float64, int: int64, bool: bool_}


def promote(a: DType, b: DType) -> DType:
    """Return the dtype in which a and b of equal priority meet, as torch.promote_types does."""
    if a is b:
        return a
    low, high = (a, b) if a.rank <= b.rank else (b, a)
    # Only uint8 beside a signed integer does not fit the line: int8 cannot hold it, so the two meet
    # in int16.
    if low is uint8 and high is int8:
        return int16
    return high

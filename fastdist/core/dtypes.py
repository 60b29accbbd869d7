"""Element types: their names, NumPy dtypes, wire codes and type promotion, as in PyTorch."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .errors import DTypeError
from .moved_modules import earlier_names
from .short_repr import short_repr

# The categories of type promotion, lowest first. The operand of the highest category determines the
# category of the result, even if this operand is a Python number.
BOOL, INTEGRAL, FLOATING, COMPLEX = range(4)
_CATEGORIES: Final = {"b": BOOL, "i": INTEGRAL, "u": INTEGRAL, "f": FLOATING, "c": COMPLEX}


class DType:
    """One element type. Interned: compare with `is`.

    `may_have_gradient` is true if tensors of this dtype can be differentiated. `computes_in` is the
    dtype in which kernels compute: float32 for half types, whose results are rounded once, and the
    dtype itself for all others. `is_bare` marks dtypes that do not promote with other integer
    dtypes and have no storage class: uint16, uint32, uint64, the float8 types and complex32.
    `is_float8` marks the float8 types and complex32. Such tensors can be stored, moved and cast,
    but hardly any op computes with them.

    Units   itemsize in bytes
    Note    `code` is sent over the wire, so its meaning never changes

    Example:
        >>> torch.float32, torch.float32.itemsize, torch.float32.is_floating_point
        (fastdist.float32, 4, True)
        >>> torch.ones(1, dtype=torch.int64).dtype is torch.int64
        True
    """

    __slots__ = (
        "category",
        "code",
        "computes_in",
        "is_bare",
        "is_complex",
        "is_float8",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "may_have_gradient",
        "name",
        "numpy",
        "rank",
    )

    def __init__(self, name: str, code: int, rank: int, *, is_bare: bool = False) -> None:
        self.numpy = np.dtype(name)
        kind = self.numpy.kind
        self._tell(name, self.numpy.itemsize, code, rank, _CATEGORIES[kind])
        self.is_signed = kind in "ifc"
        self.is_bare = is_bare

    def _tell(self, name: str, itemsize: int, code: int, rank: int, category: int) -> None:
        self.name, self.itemsize, self.code, self.rank = name, itemsize, code, rank
        self.category = category
        self.is_floating_point = category == FLOATING
        self.is_complex = category == COMPLEX
        self.may_have_gradient = category >= FLOATING
        self.computes_in: DType = self
        self.is_signed, self.is_bare, self.is_float8 = True, False, False

    @property
    def is_half(self) -> bool:
        """Whether kernels compute in a wider dtype than this one."""
        return self.computes_in is not self

    def to_real(self) -> DType:
        """Return the dtype of a complex dtype's parts; any other dtype is returned unchanged."""
        return real_of(self)

    def to_complex(self) -> DType:
        """Return the complex dtype whose parts have this dtype; complex64 for half types.

        Raises  RuntimeError for integer dtypes
        """
        if not self.may_have_gradient:
            raise DTypeError(
                f"Unknown Complex ScalarType for {WORDS[self]}: it holds whole numbers"
            )
        return complex_of(self)

    def __repr__(self) -> str:
        return f"fastdist.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return from_code, (self.code,)


class BorrowedDType(DType):
    """A dtype whose NumPy dtype comes from ml_dtypes, which is imported on first use."""

    __slots__ = ()

    def __init__(
        self,
        name: str,
        itemsize: int,
        code: int,
        rank: int,
        *,
        is_float8: bool = False,
        category: int = FLOATING,
    ) -> None:
        self._tell(name, itemsize, code, rank, category)
        self.is_float8 = self.is_bare = is_float8

    @property
    def numpy(self) -> Any:  # type: ignore[override]
        """The corresponding NumPy dtype."""
        return _borrowed.get(self) or _borrow(self)


bool_: Final = DType("bool", 0, 0)
uint8: Final = DType("uint8", 1, 1)
int8: Final = DType("int8", 2, 2)
int16: Final = DType("int16", 3, 3)
int32: Final = DType("int32", 4, 4)
int64: Final = DType("int64", 5, 5)
float16: Final = DType("float16", 6, 6)
float32: Final = DType("float32", 7, 8)
float64: Final = DType("float64", 8, 9)
bfloat16: Final = BorrowedDType("bfloat16", 2, 9, 7)
uint16: Final = DType("uint16", 12, 0, is_bare=True)
uint32: Final = DType("uint32", 13, 0, is_bare=True)
uint64: Final = DType("uint64", 14, 0, is_bare=True)
complex64: Final = DType("complex64", 10, 10)
complex128: Final = DType("complex128", 11, 11)
float8_e4m3fn: Final = BorrowedDType("float8_e4m3fn", 1, 15, 6, is_float8=True)
float8_e5m2: Final = BorrowedDType("float8_e5m2", 1, 16, 6, is_float8=True)
float8_e4m3fnuz: Final = BorrowedDType("float8_e4m3fnuz", 1, 17, 6, is_float8=True)
float8_e5m2fnuz: Final = BorrowedDType("float8_e5m2fnuz", 1, 18, 6, is_float8=True)
float8_e8m0fnu: Final = BorrowedDType("float8_e8m0fnu", 1, 19, 6, is_float8=True)
float8_e8m0fnu.is_signed = False
complex32: Final = BorrowedDType("complex32", 4, 20, 6, is_float8=True, category=COMPLEX)
float16.computes_in = bfloat16.computes_in = float32
# NumPy dtype of a half type -> the NumPy dtype in which kernels compute. bfloat16 is added when it
# is first used.
WIDE: Final[dict[Any, Any]] = {float16.numpy: float32.numpy}
# NumPy dtype of a float8 type -> its DType; each type is added when it is first used.
FLOAT8: Final[dict[Any, DType]] = {}


ALL: Final = (
    *(bool_, uint8, int8, int16, int32, int64, float16, float32, float64),
    *(bfloat16, complex64, complex128, uint16, uint32, uint64),
    *(float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu),
    complex32,
)
# PyTorch's names of dtypes, as used in errors, storage classes and old constructors.
WORDS: Final = {
    float64: "Double",
    float32: "Float",
    float16: "Half",
    bfloat16: "BFloat16",
    int64: "Long",
    int32: "Int",
    int16: "Short",
    int8: "Char",
    uint8: "Byte",
    bool_: "Bool",
    complex64: "ComplexFloat",
    complex128: "ComplexDouble",
    uint16: "UInt16",
    uint32: "UInt32",
    uint64: "UInt64",
    **{dtype: dtype.name.capitalize() for dtype in ALL if dtype.is_float8},
    complex32: "ComplexHalf",
}
_BY_CODE: Final = {dtype.code: dtype for dtype in ALL}
_BY_NUMPY: Final = {dtype.numpy: dtype for dtype in ALL if not isinstance(dtype, BorrowedDType)}
_LENDABLE: Final = {dtype.name: dtype for dtype in ALL if isinstance(dtype, BorrowedDType)}
_borrowed: Final[dict[DType, Any]] = {}


def _borrow(dtype: DType) -> Any:
    import ml_dtypes  # not at the top: this takes a sixth of the time of `import fastdist`

    lent = getattr(ml_dtypes, dtype.name, None)
    if lent is None:
        raise DTypeError(
            f"{dtype.name} needs ml_dtypes 0.6 or later, and {ml_dtypes.__version__} is installed: "
            "upgrade it, or compute in complex64"
        )
    found = np.dtype(lent)
    # `_borrowed` is changed last, because other threads read it without a lock.
    if dtype.is_float8:
        FLOAT8[found] = dtype
    else:
        WIDE[found] = dtype.computes_in.numpy
    _BY_NUMPY[found] = dtype
    _borrowed[dtype] = found
    return found


def float_limits(dtype: DType) -> Any:
    """Return NumPy's finfo of a floating dtype, or ml_dtypes' finfo if NumPy has none."""
    if not isinstance(dtype, BorrowedDType):
        return np.finfo(dtype.numpy)
    import ml_dtypes

    finfo: Any = ml_dtypes.finfo
    return finfo(dtype.numpy)


def from_code(code: int) -> DType:
    """Return the dtype that a wire code stands for.

    Raises  DTypeError for a code that no version of fastdist has used
    """
    dtype = _BY_CODE.get(code)
    if dtype is None:
        known = ", ".join(map(str, sorted(_BY_CODE)))
        raise DTypeError(f"unknown dtype code {short_repr(code)}; known are {known}")
    return dtype


def from_numpy(numpy_dtype: np.dtype[Any]) -> DType:
    """Return the fastdist dtype that corresponds to a NumPy dtype.

    Raises  DTypeError if there is none, as for strings and objects
    """
    dtype = _BY_NUMPY.get(numpy_dtype)
    if dtype is None and numpy_dtype.name in _LENDABLE:
        _borrow(_LENDABLE[numpy_dtype.name])
        dtype = _BY_NUMPY.get(numpy_dtype)
    if dtype is None:
        known = ", ".join(dtype.name for dtype in ALL)
        raise DTypeError(f"can't convert an array of type {numpy_dtype}; supported are {known}")
    return dtype


def dtype_of(value: object) -> DType:
    """Return the dtype that a user named: a DType, or one of Python's complex, float, int and bool.

    Raises  TypeError for anything else
    """
    if isinstance(value, DType):
        return value
    found = _OF_PYTHON.get(value) if isinstance(value, type) else None
    if found is None:
        raise DTypeError(f"expected a dtype such as fastdist.float32, got {short_repr(value)}")
    return found


_OF_PYTHON: Final = {complex: complex128, float: float64, int: int64, bool: bool_}


def complex_of(dtype: DType) -> DType:
    """Return the complex dtype whose parts have a floating dtype; complex64 for half types.

    Raises  RuntimeError for a float8 type
    """
    if dtype is complex32:
        return dtype
    if dtype.is_float8:
        raise DTypeError(
            f"Unknown Complex ScalarType for {WORDS[dtype]}: cast it with .to(fastdist.float32)"
        )
    return complex128 if dtype in (float64, complex128) else complex64


def real_of(dtype: DType) -> DType:
    """Return the dtype of a complex dtype's parts; any other dtype is returned unchanged."""
    if dtype is complex32:
        return float16
    if dtype.is_complex:
        return float64 if dtype is complex128 else float32
    return dtype


def _with_complex32(other: DType) -> DType:
    """Return the dtype to which complex32 and another dtype promote.

    Raises  RuntimeError for a float8 type
    """
    if other.is_float8:
        raise DTypeError(
            "Promotion for Float8 Types is not supported, attempted to promote "
            f"{WORDS[complex32]} and {WORDS[other]}: cast the float8 tensor, with "
            ".to(fastdist.float32)"
        )
    if other is float16 or other.category < FLOATING:
        return complex32
    return other if other.is_complex else complex_of(other)


def promote(a: DType, b: DType) -> DType:
    """Return the dtype to which a and b promote, as torch.promote_types does.

    Raises  RuntimeError for a float8 type with any other dtype, and for uint16, uint32 or uint64
            with another dtype that is not floating point
    """
    if a is b:
        return a
    if complex32 in (a, b):
        return _with_complex32(b if a is complex32 else a)
    if a.is_float8 or b.is_float8:
        raise DTypeError(
            "Promotion for Float8 Types is not supported, attempted to promote "
            f"{WORDS[a]} and {WORDS[b]}: cast the float8 tensor, with .to(fastdist.float32)"
        )
    if (a.is_bare or b.is_bare) and FLOATING not in (a.category, b.category):
        raise DTypeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{WORDS[a]} and {WORDS[b]}: cast one of them"
        )
    low, high = (a, b) if a.rank <= b.rank else (b, a)
    # Exceptions to the order of dtypes: int8 cannot represent uint8, bfloat16 cannot represent
    # float16, and complex64 cannot represent float64.
    if low is uint8 and high is int8:
        return int16
    if low is float16 and high is bfloat16:
        return float32
    if low is float64 and high is complex64:
        return complex128
    return high


# Pickles written under as-torch contain PyTorch's class names, which are looked up here.
__getattr__ = earlier_names(__name__)

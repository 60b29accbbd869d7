"""Dtypes that exist only as names: they compare, print and pickle, but no tensor can have them.

Third-party packages put them into tables at import. This module is loaded on first use.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from .dtypes import COMPLEX, FLOATING, INTEGRAL, DType
from .errors import DTypeError

_QUANTIZED: Final = (
    "quantized tensors are not supported: keep the whole numbers in int8 or uint8 and the scale "
    "next to them, or compute in float16 or float32"
)
_PACKED: Final = "keep such numbers in int8 or uint8"
_BITS: Final = "keep such bytes in uint8"
_FLOAT4: Final = "keep pairs of them in uint8, and compute in float16 or float32"
# name -> PyTorch's name in errors, size in bytes, and what to use instead.
_ROWS: Final = {
    **{
        name: (word, size, _QUANTIZED)
        for name, word, size in (
            ("quint8", "QUInt8", 1),
            ("qint8", "QInt8", 1),
            ("qint32", "QInt32", 4),
            ("quint4x2", "QUInt4x2", 1),
            ("quint2x4", "QUInt2x4", 1),
        )
    },
    **{
        name: (name.capitalize(), 2 if name == "bits16" else 1, _BITS)
        for name in ("bits1x8", "bits2x4", "bits4x2", "bits8", "bits16")
    },
    **{f"uint{n}": (f"UInt{n}", 1, _PACKED) for n in range(1, 8)},
    **{f"int{n}": (f"Int{n}", 1, _PACKED) for n in range(1, 8)},
    "float4_e2m1fn_x2": ("Float4_e2m1fn_x2", 1, _FLOAT4),
}
# The `code` of a named dtype: only dtypes that tensors can have get a wire code.
_NO_CODE: Final = -1


class NamedDType(DType):
    """A dtype that no tensor can have."""

    __slots__ = ("instead", "word")

    def __init__(self, name: str) -> None:
        self.word, itemsize, self.instead = _ROWS[name]
        category = {"f": FLOATING, "c": COMPLEX}.get(name[0], INTEGRAL)
        self._tell(name, itemsize, _NO_CODE, -1, category)
        self.may_have_gradient = False
        self.is_bare = True

    @property
    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers.

        Raises  RuntimeError for quantized types and bits, as PyTorch does
        """
        if self.name.startswith("q"):
            raise DTypeError(
                f"isSignedType not supported for quantized types, got {self}: {self.instead}"
            )
        if self.name.startswith("bits"):
            raise DTypeError(f"Bits types are undefined, got {self}: {self.instead}")
        return not self.name.startswith("u")

    @is_signed.setter
    def is_signed(self, value: bool) -> None:
        """Ignore the value that DType assigns, because the name determines this property."""

    def __reduce__(self) -> tuple[Any, tuple[Any]]:
        return named, (self.name,)

    @property
    def numpy(self) -> NoReturn:  # type: ignore[override]
        """Raise NotImplementedError: neither NumPy nor the kernels have such a type."""
        raise NoTensorsError(
            f"no tensor of {self} can be created: fastdist has only its name; {self.instead}"
        )


class NoTensorsError(DTypeError, NotImplementedError):
    """A tensor was requested with a dtype that exists only as a name."""


NAMED: Final[dict[str, NamedDType]] = {name: NamedDType(name) for name in _ROWS}


def named(name: str) -> NamedDType:
    """Return the dtype with a name; pickles call this function."""
    return NAMED[name]


def __getattr__(name: str) -> Any:
    """Return a dtype by its name; `bit` is another name of `uint1`."""
    found = NAMED.get("uint1" if name == "bit" else name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found

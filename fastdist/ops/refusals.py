"""What pointwise ops say to dtypes that PyTorch has no kernel for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from ..core.dtypes import DType, bool_, promote

# What PyTorch calls its dtypes in errors.
WORDS = {
    "bool": "Bool",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "float16": "Half",
    "float32": "Float",
    "float64": "Double",
}


def floating_only(kernel: str) -> Callable[[Sequence[DType]], str | None]:
    """Return a refusal of operands none of which is floating, in the words of PyTorch's kernel.

    An integer could not hold what comes of them, and what it holds would be another number.
    """

    def tell(dtypes: Sequence[DType]) -> str | None:
        met = reduce(promote, dtypes)
        if met.is_floating_point:
            return None
        return f'"{kernel}" not implemented for {WORDS[met.name]!r}: cast one to a floating dtype.'

    return tell


def no_bool(kernel: str) -> Callable[[Sequence[DType]], str | None]:
    """Return a refusal of operands that are all bool, in the words of PyTorch's kernel."""

    def tell(dtypes: Sequence[DType]) -> str | None:
        if any(dtype is not bool_ for dtype in dtypes):
            return None
        return f"\"{kernel}\" not implemented for 'Bool': cast one with .to(fastdist.int64)."

    return tell

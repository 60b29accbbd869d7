"""What pointwise ops say to dtypes that PyTorch has no kernel for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from ..core.dtypes import DType, promote

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

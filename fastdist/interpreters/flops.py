"""The number of floating-point operations of an op, by PyTorch's formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

_Shape = tuple[int, ...]


def flops_of(name: str, operands: Any, result: Any) -> int:
    """Return the number of operations of a matrix product, a convolution, or an elementwise add or
    mul; 0 for all other ops, and for in-place ones.

    Note    a convolution is counted per output element, so that counts are right with groups and
            dilation. If operands broadcast, the elements of the result are counted. As in PyTorch,
            the additions of biases are not counted
    """
    count = _COUNTED.get(name)
    if count is None:
        return 0
    shapes = [tuple(getattr(operand, "shape", ())) for operand in operands]
    return count(shapes, tuple(getattr(result, "shape", ())))


def _product(shapes: list[_Shape], result: _Shape) -> int:
    return 2 * math.prod(result) * shapes[0][-1]


def _gather(shapes: list[_Shape], result: _Shape) -> int:
    return 2 * math.prod(result) * math.prod(shapes[1][1:])


def _scatter(shapes: list[_Shape], result: _Shape) -> int:
    return 2 * math.prod(shapes[0]) * math.prod(shapes[1][1:])


def _correlation(shapes: list[_Shape], result: _Shape) -> int:
    return 2 * math.prod(shapes[0]) * math.prod(result[1:])


def _elementwise(shapes: list[_Shape], result: _Shape) -> int:
    return math.prod(result)


_COUNTED: Final[dict[str, Callable[[list[_Shape], _Shape], int]]] = {
    "matmul": _product,
    "linear_kernel": _product,
    "convolve": _gather,
    "convolve_back": _scatter,
    "correlate": _correlation,
    "add": _elementwise,
    "mul": _elementwise,
}

"""Bilinear products of two vectors."""

from __future__ import annotations

from typing import Any

from ...core.errors import ShapeError
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...tensor.layout import count_elements
from ...tensor.tensor import Tensor


@composite(homes="function functional")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return input1 @ weight[k] @ input2 + bias[k] for each k.

    Shape   (..., n), (..., m), (k, n, m), (k) -> (..., k)
    """
    _require_fitting(input1, input2, weight, bias)
    a: Any = input1
    b: Any = input2
    lead, (out, n, m) = a._layout.shape[:-1], weight._layout.shape
    rows = count_elements(lead)
    matrix = weight.permute(1, 0, 2).reshape(n, out * m)
    between = (a.reshape(rows, n) @ matrix).reshape(rows, out, m)
    found = (between @ b.reshape(rows, m, 1)).reshape(*lead, out)
    return found if bias is None else found + bias  # type: ignore[no-any-return]


def _require_fitting(input1: Any, input2: Any, weight: Any, bias: Any) -> None:
    a, b, w = (one._layout.shape for one in (input1, input2, weight))
    if len(a) != len(b):
        raise ShapeError(f"bilinear(): input dimensions do not match: got {len(a)} and {len(b)}")
    for dim, (one, other) in enumerate(zip(a[:-1], b[:-1], strict=True)):
        if one != other:
            raise ShapeError(
                f"bilinear(): input batch dimensions do not match at dim {short_repr(dim)}: got "
                f"{one} and "
                f"{other}"
            )
    if len(w) != 3:
        raise ShapeError(f"bilinear(): weight has to be (out, in1, in2), got {list(w)}")
    for name, shape, expected in (("input1", a, w[1]), ("input2", b, w[2])):
        if shape[-1] != expected:
            raise ShapeError(
                f"bilinear(): {name} size does not match weight size: got {shape[-1]} but "
                f"expected {expected}"
            )
    if bias is not None and bias._layout.shape != w[:1]:
        raise ShapeError(
            "bilinear(): bias size does not match weight size: got "
            f"{bias._layout.shape[0] if bias._layout.shape else 1} but expected {w[0]}"
        )

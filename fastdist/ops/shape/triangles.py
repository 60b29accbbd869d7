"""Triangular parts of matrices: tril and triu."""

from __future__ import annotations

from typing import Any

from ...core.errors import ShapeError
from ...dispatch.structured import Plan, structured
from ...tensor.tensor import Tensor


def _triangle_plan(name: str, input: Tensor, diagonal: int, *, upper: bool) -> Plan:
    layout = input._layout
    if len(layout.shape) < 2:
        raise ShapeError(f"{name}: input tensor must have at least 2 dimensions")
    return Plan(layout.shape, layout.dtype, (diagonal, upper))


@structured(
    "shape.copying.triangle",
    linear=True,
    fresh=True,
    homes="function method inplace",
    batch="last axes",
    takes_complex=True,
)
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """Return a copy with zeros above the diagonal of each matrix."""


@tril.plan
def _(input: Tensor, diagonal: int) -> Plan:
    return _triangle_plan("tril", input, diagonal, upper=False)


@tril.vjp("input")
def _(g: Tensor, diagonal: int) -> Any:
    return tril(g, diagonal)


@structured(
    "shape.copying.triangle",
    linear=True,
    fresh=True,
    homes="function method inplace",
    batch="last axes",
    takes_complex=True,
)
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """Return a copy with zeros below the diagonal of each matrix.

    Raises  RuntimeError if input has fewer than two axes

    Args:
        input: Matrices of any dtype, of shape (..., n, m).
        diagonal: The lowest diagonal to keep: 0 is the main diagonal, positive ones are above it.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.triu(torch.ones(2, 2))
        tensor([[1., 1.],
                [0., 1.]])
    """


@triu.plan
def _(input: Tensor, diagonal: int) -> Plan:
    return _triangle_plan("triu", input, diagonal, upper=True)


@triu.vjp("input")
def _(g: Tensor, diagonal: int) -> Any:
    return triu(g, diagonal)

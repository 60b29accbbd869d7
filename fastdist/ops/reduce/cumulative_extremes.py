"""Cumulative maximum, minimum and log-sum along an axis."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import WORDS, int64
from ...core.errors import DTypeError
from ...dispatch.composite import composite
from ...dispatch.structured import Plan, StructuredOp, structured
from ...tensor.axes import normalize_axis
from ...tensor.layout import Layout
from ...tensor.tensor import Tensor
from .. import late_ops, return_types
from ..index.indexing import scatter_zeros
from ..pointwise.comparison import isinf, logical_and
from ..pointwise.masked import where
from .cumulative_sums import moved, recurrence


@structured("reduce.scan.cummax", homes="nowhere", known_as="cummax")
def cummax_along(input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the cumulative maxima along dim, and their indices."""


@structured("reduce.scan.cummin", homes="nowhere", known_as="cummin")
def cummin_along(input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the cumulative minima along dim, and their indices."""


def _extreme(name: str, op: StructuredOp) -> None:
    """Add the plan and derivatives of cummax_along or cummin_along. Each result is the element of
    input at the returned index. So an element that is the extreme at several positions gets the sum
    of the gradients at these positions.
    """

    @op.plan
    def _(input: Tensor, dim: int) -> Plan:
        layout = input._layout
        axis = normalize_axis(name, dim, len(layout.shape))
        return Plan(layout.shape, layout.dtype, (axis,), extra_outputs=((layout.shape, int64),))

    @op.vjp("input")
    def _(g: Tensor, input_layout: Layout, dim: int, others: tuple[Tensor, ...]) -> Any:
        return scatter_zeros(g, others[0], input_layout.shape, dim)

    @op.jvp
    def _(input_t: Any, dim: int, others: Any) -> Any:
        return input_t.gather(dim, others[0])


_extreme("cummax", cummax_along)
_extreme("cummin", cummin_along)


@composite(out="same", known_as="")
def cummax(input: Tensor, dim: int) -> Any:
    """Return the cumulative maxima along dim, and the last index of each; NaN from a NaN on."""
    return return_types.cummax(*cummax_along(input, dim))


@composite(out="same", known_as="")
def cummin(input: Tensor, dim: int) -> Any:
    """Return the cumulative minima along dim, and the last index of each; NaN from a NaN on."""
    return return_types.cummin(*cummin_along(input, dim))


@structured("reduce.scan.logcumsumexp", fresh=True, memory="apart")
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """Return log(cumsum(exp(input))) along dim, without overflow."""


@logcumsumexp.plan
def _(input: Tensor, dim: int) -> Plan:
    layout = input._layout
    axis = normalize_axis("logcumsumexp", dim, len(layout.shape))
    if not layout.dtype.is_floating_point:
        raise DTypeError(
            f"\"logcumsumexp_out_cpu\" not implemented for '{WORDS[layout.dtype]}'; cast with "
            ".float()"
        )
    return Plan(layout.shape, layout.dtype, (axis,))


# Note [Derivatives of running log-sums]
# out[k] = logaddexp(out[k - 1], input[k]). Let d[k] = out[k - 1] - input[k]. The tangent t[k] of
# out[k] is a weighted mean of t[k - 1], with the weight sigmoid(d[k]), and of input_t[k], the
# tangent of input[k], with the weight sigmoid(-d[k]). So all weights are at most 1, and no division
# is needed:
#
#     t[k] = sigmoid(d[k]) * t[k - 1] + sigmoid(-d[k]) * input_t[k]
#
# The gradient is computed by the adjoint recurrence, so derivatives of all orders exist. The
# derivative of both weights is, up to its sign, sigmoid(d) * sigmoid(-d). This product does not
# suffer from cancellation.


def _above_input(input: Tensor, out: Tensor | None, dim: int) -> Any:
    """Return d[k] of the Note: the log-sum before each element minus the element. The difference of
    two equal infinities counts as inf. So an element of -inf gets no share of the gradient, as in
    logsumexp.
    """
    before = moved(out, dim, first=-float("inf"))
    both = logical_and(before == input, isinf(input))
    return where(both, float("inf"), before - input)


def _own_share(input: Tensor) -> Any:
    nothing = -float("inf")
    return where(input == nothing, nothing, input - input).exp()


def _share(input: Tensor, above: Tensor) -> Any:
    """Return the weight sigmoid(-d[k]) of each element (see the Note); NaN for elements of inf."""
    return _logistic(where(input == float("inf"), float("nan"), -above))


def _logistic(x: Tensor) -> Any:
    return late_ops.logistic(x)


@logcumsumexp.vjp("input")
def _(g: Tensor, input: Tensor, out: Tensor, dim: int) -> Any:
    if not input._layout.shape:
        return g * _own_share(input)
    above = _above_input(input, out, dim)
    sums = recurrence(_logistic(above), g, dim, backwards=True)
    return sums * _share(input, above)


@logcumsumexp.jvp
def _(input: Tensor, input_t: Tensor, out: Tensor, dim: int) -> Any:
    if not input._layout.shape:
        return input_t * _own_share(input)
    above = _above_input(input, out, dim)
    parts = _share(input, above) * input_t
    return recurrence(_logistic(above), parts, dim, backwards=False)

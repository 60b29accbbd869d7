"""Group, instance and batch norm of plain tensors on the CPU, each as one op.

The composites of batch_norm.py and normalization.py try these ops first. A composite itself
computes the calls that these ops do not support (other devices and dtypes, other memory orders,
open interpreters).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from ...core.device import CPU
from ...core.dtypes import float32, float64
from ...dispatch.op import PLAIN
from ...dispatch.structured import Plan, structured
from ...tensor.layout import Layout, Shape
from ...tensor.tensor import Tensor
from ..reduce.row_slopes import MOST, may_fuse
from .norm_slopes import axes_of, group_norm_slope, normal_of, slope_of

# The kernels add up the gradients of samples one by one, which is fast up to this many samples.
_MOST_SAMPLES: Final = 256


@structured(
    "nn.channel_norms.groups",
    kernel_gradients=True,
    fresh=True,
    homes="nowhere",
    known_as="native_group_norm",
)
def normalize_groups(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, num_groups: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (x - mean) / deviation * weight + bias for each group of channels of each sample.
    Further results are the means and deviations of the groups.
    """


@normalize_groups.plan
def _(input: Tensor, weight: Tensor, bias: Tensor | None, num_groups: int, eps: float) -> Plan:
    layout = input._layout
    row = ((layout.shape[0] * num_groups, 1), layout.dtype.computes_in)
    return Plan(layout.shape, layout.dtype, (num_groups, eps), extra_outputs=(row, row))


@normalize_groups.vjp("input", "weight", "bias")
def _(
    g: Tensor,
    input: Tensor,
    weight: Tensor | None,
    num_groups: int,
    eps: float,
    others: tuple[Tensor, ...],
    wanted: Sequence[bool],
) -> Any:
    shape = input._layout.shape
    axes, kept = axes_of(shape)
    by_input = by_weight = None
    if wanted[0] and may_fuse(input, g, weight):
        by_input = group_norm_slope.public(g, input, weight, *others, num_groups, eps)
    if wanted[1] or (wanted[0] and by_input is None):
        rows = (shape[0] * num_groups, -1)
        normal, scale = normal_of(input.reshape(rows), eps, 1)
        if wanted[0] and by_input is None:
            slope = (g if weight is None else g * weight.reshape(kept)).reshape(rows)
            by_input = slope_of(slope, normal, scale, 1).reshape(shape)
        if wanted[1]:
            by_weight = (g * normal.reshape(shape)).sum(axes)
    return by_input, by_weight, g.sum(axes) if wanted[2] else None


@structured(
    "nn.channel_norms.by_known", kernel_gradients=True, fresh=True, homes="nowhere",
    known_as="native_batch_norm",
)  # fmt: skip
def normalize_by_known(
    input: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    """Return (channel - mean) / sqrt(variance + eps) * weight + bias for each channel. The given
    mean and variance are constants: they get no gradients.
    """


@normalize_by_known.plan
def _(
    input: Tensor, mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> Plan:
    return Plan(input._layout.shape, input._layout.dtype, (eps,))


@normalize_by_known.vjp("input", "weight", "bias")
def _(
    g: Tensor,
    input: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None,
    eps: float,
    wanted: Sequence[bool],
) -> Any:
    axes, kept = axes_of(input._layout.shape)
    scale = (variance + eps).rsqrt()
    by_input = by_weight = None
    if wanted[0]:
        by_input = g * (scale if weight is None else scale * weight).reshape(kept)
    if wanted[3]:
        by_weight = (g * (input - mean.reshape(kept))).sum(axes) * scale
    return by_input, by_weight, g.sum(axes) if wanted[4] else None


def _are_rows(layout: Layout, *rows: Layout | None) -> bool:
    """Return whether `layout` is the layout of a contiguous floating-point tensor of supported size
    on the CPU, and each of `rows` has one number for each channel of that tensor, in its dtype.
    """
    if layout.device is not CPU or layout.dtype not in (float32, float64) or layout.is_sparse:
        return False
    if len(layout.shape) < 2 or not layout.contiguous or not 0 < layout.numel <= MOST:
        return False
    return all(
        row is None
        or (
            row.shape == layout.shape[1:2]
            and row.dtype is layout.dtype
            and row.device is CPU
            and row.contiguous
        )
        for row in rows
    )


def _fits(kind: Any, layout: Layout, groups: int, *rows: Layout | None) -> bool:
    """Return whether an op of this file supports tensors of these layouts; the answer is cached."""
    key = (kind, groups, *rows)
    found: bool | None = layout.routes.get(key)
    if found is None:
        found = _are_rows(layout, *rows) and kind(layout.shape, groups)
        layout.routes.remember(key, found)
    return found


def _has_groups(shape: Shape, groups: int) -> bool:
    is_whole = groups > 0 and shape[1] % groups == 0
    several = math.prod(shape) > shape[1] or shape[1] > groups
    return is_whole and several and shape[0] <= _MOST_SAMPLES


def _has_places(shape: Shape, _: int) -> bool:
    return math.prod(shape[2:]) > 1 and shape[0] <= _MOST_SAMPLES


def _is_any(shape: Shape, _: int) -> bool:
    return True


# Note [Kinds of operands, written out]
# The three functions below run in each call. They check the class of each operand in a separate
# condition. A loop over the operands, or a call of a function for each operand, would take as long
# as the kernel takes for a hundred numbers.
def groups_or_none(
    input: Tensor | None, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Any:
    """Return group norm computed by one op, or None if that op does not support the arguments."""
    if groups.__class__ is not int or eps.__class__ is not float:
        return None
    if input.__class__ not in PLAIN:
        return None
    if not (weight is None or weight.__class__ in PLAIN) or not (
        bias is None or bias.__class__ in PLAIN
    ):
        return None
    of_weight = None if weight is None else weight._layout
    of_bias = None if bias is None else bias._layout
    if not _fits(_has_groups, input._layout, groups, of_weight, of_bias):
        return None
    return normalize_groups(input, weight, bias, groups, eps)[0]


def instances_or_none(
    input: Tensor | None, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Any:
    """Return instance norm computed by one op, or None if that op does not support the
    arguments.
    """
    if eps.__class__ is not float or input.__class__ not in PLAIN:
        return None
    if not (weight is None or weight.__class__ in PLAIN) or not (
        bias is None or bias.__class__ in PLAIN
    ):
        return None
    layout = input._layout
    of_weight = None if weight is None else weight._layout
    of_bias = None if bias is None else bias._layout
    if not _fits(_has_places, layout, 0, of_weight, of_bias):
        return None
    return normalize_groups(input, weight, bias, layout.shape[1], eps)[0]


def takes_channels(
    input: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
) -> bool:
    """Return whether the ops of this file support these arguments of batch norm: a plain input on
    the CPU, and plain tensors with one number for each channel. `mean` and `variance` must both be
    None, or both be tensors without a Node.
    """
    if input.__class__ not in PLAIN:
        return False
    if not (weight is None or weight.__class__ in PLAIN) or not (
        bias is None or bias.__class__ in PLAIN
    ):
        return False
    of_weight = None if weight is None else weight._layout
    of_bias = None if bias is None else bias._layout
    if mean is None or variance is None:
        return mean is variance and _fits(_is_any, input._layout, 0, of_weight, of_bias)
    if mean.__class__ not in PLAIN or variance.__class__ not in PLAIN:
        return False
    if mean._edge is not None or variance._edge is not None:
        return False
    return _fits(_is_any, input._layout, 0, mean._layout, variance._layout, of_weight, of_bias)

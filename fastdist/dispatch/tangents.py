"""Forward mode: what a call with dual tensors does besides its value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..graph.accumulate_grad import extra_of
from ..tensor.tensor import Tensor
from .op import OPS


class Derivable(Protocol):
    """What this file reads off a pointwise op."""

    differentiable: bool

    @property
    def vjps(self) -> tuple[Any, ...]:
        """The Tensor expressions of the partials times g."""


def levels_of(operands: Sequence[Any]) -> list[int]:
    """Return the forward levels at which any operand has a tangent, outermost first."""
    found: set[int] = set()
    for operand in operands:
        if (
            isinstance(operand, Tensor)
            and operand.extra is not None
            and operand.extra.tangents is not None
        ):
            found.update(operand.extra.tangents.levels())
    return sorted(found)


def tangent_of(operand: Any, level: int) -> Tensor | None:
    """Return the operand's tangent at level, or None."""
    if not isinstance(operand, Tensor) or operand.extra is None or operand.extra.tangents is None:
        return None
    tangent: Tensor | None = operand.extra.tangents.value(level)
    return tangent


def below(operand: Any, level: int) -> Any:
    """Return operand without its tangents of level and deeper, so that a level's arithmetic does
    not see itself.
    """
    if not isinstance(operand, Tensor) or operand.extra is None or operand.extra.tangents is None:
        return operand
    tangents = operand.extra.tangents
    kept = [known for known in tangents.levels() if known < level]
    alias = Tensor()
    alias.array, alias.layout, alias.edge = operand.array, operand.layout, operand.edge
    alias.storage, alias.extra = operand.storage, None
    for known in kept:
        set_tangent(alias, tangents.value(known), known)
    return alias


def set_tangent(tensor: Tensor, tangent: Tensor | None, level: int) -> None:
    """Give tensor a tangent at level."""
    from ..graph.forward_grad import ForwardGrad

    if tangent is None:
        return
    extra = extra_of(tensor)
    if extra.tangents is None:
        extra.tangents = ForwardGrad()
    extra.tangents.set_value(tangent, level)


def carry_pointwise(
    op: Derivable, result: Tensor, operands: Sequence[Any], attributes: Sequence[Any]
) -> None:
    """Give result the tangents that follow from those of the operands: sum of partial times
    tangent, level by level.
    """
    if not op.differentiable:
        return
    for level in levels_of(operands):
        inputs = [below(operand, level) for operand in operands]
        out = below(result, level)
        total: Tensor | None = None
        for operand, vjp in zip(operands, op.vjps, strict=True):
            tangent = tangent_of(operand, level)
            if tangent is None or vjp is None:
                continue
            part = vjp(*inputs, *attributes, out, tangent)
            total = part if total is None else OPS["add"].public(total, part)
        if total is not None:
            if total.layout.shape != result.layout.shape:
                total = OPS["expand"].public(total, result.layout.shape)
            set_tangent(result, total, level)

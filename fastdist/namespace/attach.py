"""Hangs the ops on Tensor: methods, operators and in-place twins."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dtypes import promote
from ..core.missing import MissingMethod
from ..dispatch import fast, fast_structured
from ..dispatch.composite import COMPOSITES
from ..dispatch.copy_inplace import inplace_of
from ..dispatch.fast_nary import nary
from ..dispatch.inplace import pointwise_inplace
from ..dispatch.op import OPS, dress
from ..dispatch.pointwise import PointwiseOp
from ..dispatch.structured import StructuredOp
from ..kernels.cpu.pointwise import kernel_for
from ..tensor.methods import TensorMethods
from ..tensor.tensor import Tensor, from_users_array
from .names import (
    ALIASES,
    FUNCTIONAL_ONLY,
    MISSING_METHODS,
    NO_INPLACE,
    NOT_METHODS,
    PRIVATE,
    SPECIAL_ONLY,
    STRUCTURED_INPLACE,
)

# op -> (operator, operator with the operands swapped, in-place operator)
OPERATORS = {
    "add": ("__add__", "__radd__", "__iadd__"),
    "sub": ("__sub__", "__rsub__", "__isub__"),
    "mul": ("__mul__", "__rmul__", "__imul__"),
    "div": ("__truediv__", "__rtruediv__", "__itruediv__"),
    "floor_divide": ("__floordiv__", "__rfloordiv__", "__ifloordiv__"),
    "remainder": ("__mod__", "__rmod__", "__imod__"),
    "pow": ("__pow__", "__rpow__", "__ipow__"),
    "eq": ("__eq__", None, None),
    "ne": ("__ne__", None, None),
    "lt": ("__lt__", None, None),
    "le": ("__le__", None, None),
    "gt": ("__gt__", None, None),
    "ge": ("__ge__", None, None),
    "bitwise_and": ("__and__", "__rand__", "__iand__"),
    "bitwise_or": ("__or__", "__ror__", "__ior__"),
    "bitwise_xor": ("__xor__", "__rxor__", "__ixor__"),
    "bitwise_left_shift": ("__lshift__", "__rlshift__", "__ilshift__"),
    "bitwise_right_shift": ("__rshift__", "__rrshift__", "__irshift__"),
}
UNARY_OPERATORS = {"neg": "__neg__", "abs": "__abs__", "bitwise_not": "__invert__"}


def has_short_way(op: PointwiseOp) -> bool:
    """Say whether there is a closure for op; without one it always goes the general way."""
    plain = op.plain
    if plain is None or plain.dtype in ("integral", "whole"):
        return False
    return len(op.tensors) == 1 or (len(op.tensors) == 2 and op.mentions(op.tensors))


def short_ways(op: PointwiseOp) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """Return the op's fast closure and, of two operands, its swapped twin."""
    assert op.plain is not None
    kernel = kernel_for(op.plain.run_body)
    if len(op.tensors) == 1:
        return fast.unary(op.plain, kernel), None
    return fast.binary(op.plain, kernel)


def attach_pointwise(op: PointwiseOp) -> None:
    """Give one pointwise op its public function, method, operators and in-place twin."""
    if has_short_way(op):
        made = functools.cache(lambda: short_ways(op))
        op.public = fast.public_of(op, lambda: made()[0])
        _attach_operators(op, made)
    else:
        _attach_operators(op, lambda: general_ways(op))
    if op.name in PRIVATE | FUNCTIONAL_ONLY | SPECIAL_ONLY:
        return
    if op.name not in NOT_METHODS:
        setattr(TensorMethods, op.name, op.public)
    if op.tensors[0] == "input" and op.name not in NO_INPLACE:
        setattr(TensorMethods, f"{op.name}_", pointwise_inplace(op))
        names = OPERATORS.get(op.name)
        if names is not None and names[2]:
            setattr(TensorMethods, names[2], pointwise_inplace(op, operator=True))


def general_ways(op: PointwiseOp) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the op by its general way, as an operator and as the swapped one."""

    made = functools.cache(lambda: nary(op))

    def forward(input: Any, *other: Any) -> Any:
        return made()(input, *other)

    def swapped(input: Any, other: Any) -> Any:
        return made()(other, input)

    return forward, swapped


def _attach_operators(op: PointwiseOp, made: Callable[[], tuple[Any, Any]]) -> None:
    if op.name in UNARY_OPERATORS:
        _attach_operator(UNARY_OPERATORS[op.name], lambda: made()[0])
    names = OPERATORS.get(op.name)
    if names is not None:
        _attach_operator(names[0], lambda: made()[0])
        if names[1]:
            _attach_operator(names[1], lambda: made()[1])


def _attach_operator(name: str, make: Callable[[], Any]) -> None:
    """Give Tensor an operator, which its first use makes and puts into its own place."""

    def first(*operands: Any) -> Any:
        made = make()
        if getattr(TensorMethods, name) is first:
            setattr(TensorMethods, name, made)
        return made(*operands)

    setattr(TensorMethods, name, first)


def attach_structured() -> None:
    """Put the closures of the matrix product and the sum in the place of their general
    functions.
    """
    product = OPS["matmul"]
    assert isinstance(product, StructuredOp)
    matmul = fast_structured.fast_matmul(product)
    product.public = fast.public_of(product, lambda: matmul)

    def swapped(self: Tensor, other: Any) -> Tensor:
        # NumPy's arrays leave `array @ tensor` to Tensor, as they do `array + tensor`; like that
        # it meets in the dtype that both fit in.
        if isinstance(other, np.ndarray):
            other = from_users_array(other)
            wanted = promote(other.facts.dtype, self.facts.dtype)
            other, self = other.to(wanted), self.to(wanted)
        return matmul(other, self)  # type: ignore[no-any-return]

    total = OPS["sum"]
    assert isinstance(total, StructuredOp)
    total.public = dress(fast_structured.fast_sum(total, total.public), total)
    for name, method in (
        ("matmul", product.public),
        ("__matmul__", matmul),
        ("__rmatmul__", swapped),
        ("sum", total.public),
    ):
        setattr(TensorMethods, name, method)


def attach_composites() -> None:
    """Put the composites in the place of the ops whose names they have."""
    for found in COMPOSITES.values():
        if found.method:
            setattr(TensorMethods, found.name, found.call)
        if found.inplace:
            setattr(TensorMethods, f"{found.name}_", inplace_of(found.name, found.call))


def attach_aliases() -> None:
    """Give methods their other names."""
    for alias, name in ALIASES.items():
        for suffix in ("", "_"):
            method = getattr(TensorMethods, name + suffix, None)
            if method is not None:
                setattr(TensorMethods, alias + suffix, method)


def attach_all() -> None:
    """Attach every op of the table."""
    for op in OPS.values():
        if isinstance(op, PointwiseOp):
            attach_pointwise(op)
        elif op.name not in PRIVATE and op.name not in NOT_METHODS:
            setattr(TensorMethods, op.name, op.public)
    attach_structured()
    for name in STRUCTURED_INPLACE:
        setattr(TensorMethods, f"{name}_", inplace_of(name, OPS[name].public))
    attach_composites()
    attach_aliases()
    for name in MISSING_METHODS:
        setattr(Tensor, name, MissingMethod(name))

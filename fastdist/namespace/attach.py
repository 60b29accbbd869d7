"""Attaches the ops to Tensor: methods, operators and in-place twins."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dtypes import promote
from ..core.folded_frames import fold
from ..core.missing import MissingMethod, refusing
from ..core.torch_function import NOT_TAKEN, offer_operator
from ..dispatch.call import InPlace
from ..dispatch.composite import inplace_of
from ..dispatch.pointwise import PointwiseOp
from ..dispatch.short_path import operator_call
from ..dispatch.structured import StructuredOp
from ..interpreters.torch_function import operator_of
from ..ops.shape.view_inplace import view_inplace_of
from ..tensor.methods import TensorMethods
from ..tensor.tensor import Tensor, from_users_array
from .catalogue import COMPOSITES, OPS
from .names import ALIASES, MISSING_METHODS

# Maps an op to (operator, operator with swapped operands, in-place operator).
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


def attach_pointwise(op: PointwiseOp) -> None:
    """Give one pointwise op its public function, method, operators and in-place twin."""
    _attach_operators(op)
    if "method" in op.homes:
        setattr(TensorMethods, op.name, op.public)
    if "inplace" in op.homes:
        setattr(TensorMethods, f"{op.name}_", InPlace(op).public)
        names = OPERATORS.get(op.name)
        if names is not None and names[2]:
            setattr(TensorMethods, names[2], InPlace(op, names[2]).public)


def _attach_operators(op: PointwiseOp) -> None:
    if op.name in UNARY_OPERATORS:
        unary = UNARY_OPERATORS[op.name]
        _attach_operator(unary, lambda: operator_call(op, operator_of(op, unary)))
    names = OPERATORS.get(op.name)
    if names is not None:
        forward, reflected, _ = names
        _attach_operator(forward, lambda: operator_call(op, operator_of(op, forward)))
        if reflected:
            order, general = (*reversed(op.tensors),), operator_of(op, reflected, swapped=True)
            _attach_operator(reflected, lambda: operator_call(op, general, order))


def _attach_operator(name: str, make: Callable[[], Any]) -> None:
    """Attach a placeholder to Tensor; its first call creates the operator, which replaces it."""

    def settle() -> Any:
        made = make()
        made.__name__ = made.__qualname__ = name
        if getattr(TensorMethods, name) is first:
            setattr(TensorMethods, name, made)
        return made

    def first(*operands: Any) -> Any:
        try:
            return settle()(*operands)
        except Exception as error:
            fold(error)
            raise

    first.settle = settle  # type: ignore[attr-defined]
    setattr(TensorMethods, name, first)


def attach_matmul() -> None:
    """Give Tensor the operators of the matrix product."""
    product = OPS["matmul"]
    assert isinstance(product, StructuredOp)

    def swapped(self: Tensor, other: Any) -> Tensor:
        # NumPy arrays leave `array @ tensor` to Tensor, as they do for `array + tensor`. Both
        # operands are converted to the promoted dtype, as in an addition.
        found = offer_operator(swapped, (self, other), {})
        if found is not NOT_TAKEN:
            return found  # type: ignore[no-any-return]
        if isinstance(other, np.ndarray):
            other = from_users_array(other)
            wanted = promote(other._layout.dtype, self._layout.dtype)
            other, self = other.to(wanted), self.to(wanted)
        return product.general((other, self), ())  # type: ignore[no-any-return]

    general = operator_of(product, "__matmul__")
    _attach_operator("__matmul__", functools.partial(operator_call, product, general))
    swapped.__name__ = swapped.__qualname__ = "__rmatmul__"
    setattr(TensorMethods, "__rmatmul__", swapped)  # noqa: B010


def attach_composites() -> None:
    """Attach the methods of composites, which replace methods of ops with the same names."""
    for found in COMPOSITES.values():
        if "method" in found.homes:
            setattr(TensorMethods, found.name, found.call)
        if "inplace" in found.homes:
            setattr(TensorMethods, f"{found.name}_", inplace_of(found.name, found.call))


def attach_aliases() -> None:
    """Attach methods under their aliases."""
    for alias, name in ALIASES.items():
        for suffix in ("", "_"):
            method = getattr(TensorMethods, name + suffix, None)
            if method is not None:
                setattr(TensorMethods, alias + suffix, method)


_NO_WRAPPER = (
    "a tensor without memory that passes calls on is not supported: write __torch_function__ on a "
    "subclass that holds the tensor"
)


def attach_all() -> None:
    """Attach every op in the table."""
    for op in OPS.values():
        if isinstance(op, PointwiseOp):
            attach_pointwise(op)
            continue
        if "method" in op.homes:
            setattr(TensorMethods, op.name, op.public)
        if "inplace" in op.homes:
            twin = view_inplace_of if op.kind == "view" else inplace_of
            setattr(TensorMethods, f"{op.name}_", twin(op.name, op.public))
    attach_matmul()
    attach_composites()
    attach_aliases()
    refused = refusing("fastdist", "Tensor._make_wrapper_subclass", _NO_WRAPPER)
    setattr(TensorMethods, "_make_wrapper_subclass", staticmethod(refused))  # noqa: B010
    for name in MISSING_METHODS:
        setattr(Tensor, name, MissingMethod(name))

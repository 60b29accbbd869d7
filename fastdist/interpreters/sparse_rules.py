"""Ops on sparse tensors: runs the rule registered for an op, or raises an error with a workaround.

An op's general path calls this module for operands that the op does not take. The rules
(ops/sparse/rules.py and the files next to it) work on coordinates and values, which are dense
Tensors, so they run on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..tensor.tensor import Tensor

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}


def on_sparse(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for ops of these names: a function of (operands..., attributes...), which is
    called if an operand is sparse.
    """

    def file(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return file


def is_sparse(value: Any) -> bool:
    """Return whether a value is a sparse tensor."""
    return isinstance(value, Tensor) and value._layout.is_sparse


def meet_sparse(
    name: str, operands: Sequence[Any], attributes: Sequence[Any] = (), out: Any = None
) -> Any:
    """Return the result of an op's rule; NotImplemented if no operand is sparse.

    Raises  NotImplementedError if there is no rule, or if `out` is given
    """
    found = [operand for operand in operands if is_sparse(operand)]
    if not found:
        return NotImplemented
    rule = RULES.get(name)
    if rule is None or out is not None:
        raise refusal(name, found[0])
    return rule(*operands, *attributes)


def refusal(name: str, tensor: Tensor) -> NotImplementedError:
    """Return the error for a function that does not take sparse tensors."""
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the "
        f"'Sparse{tensor._layout.device.type.upper()}' backend: it is not implemented for sparse "
        "tensors. Call to_dense() first, or work on _indices() and _values()"
    )

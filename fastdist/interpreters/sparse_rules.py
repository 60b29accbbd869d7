"""What ops do when they meet a sparse tensor: the rule that is filed for them, or words.

The general path of an op looks here for operands that it does not take. Rules (ops/sparse/rules.py
and its neighbours) work on coordinates and values: dense Tensors, so they run on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..tensor.tensor import Tensor

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}


def on_sparse(*names: str) -> Callable[[Rule], Rule]:
    """Let ops of these names be this function of (operands..., attributes...) if one is sparse."""

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
    """Return what the rule for an op makes of operands; NotImplemented if none is sparse.

    Raises  NotImplementedError if there is no rule
    """
    found = [operand for operand in operands if is_sparse(operand)]
    if not found:
        return NotImplemented
    rule = RULES.get(name)
    if rule is None or out is not None:
        raise refusal(name, found[0])
    return rule(*operands, *attributes)


def refusal(name: str, tensor: Tensor) -> NotImplementedError:
    """Return the error of what sparse tensors cannot be given to."""
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the "
        f"'Sparse{tensor._layout.device.type.upper()}' backend: it is not there for sparse "
        "tensors. "
        "Call to_dense() first, or work on _indices() and _values()"
    )

"""The Kullback-Leibler divergence: a registry of formulas for pairs of distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.caller_warning import warn_caller
from ..core.folded_frames import fold_public
from ..tensor.tensor import Tensor
from .distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

Formula = Callable[[Any, Any], Any]
# These tables have PyTorch's names, because some packages read and extend them.
_KL_REGISTRY: dict[tuple[type, type], Formula] = {}
_KL_MEMOIZE: dict[tuple[type, type], Formula | None] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """Register the decorated function of (p, q) for a class of p and a class of q.

    Raises  TypeError for an argument that is not a class
    Note    a class need not inherit from Distribution: packages register their own base classes,
            and classes whose metaclass implements __subclasscheck__
    """
    for name, given in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(given, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {given}")

    def decorate(formula: Formula) -> Formula:
        _KL_REGISTRY[type_p, type_q] = formula
        _KL_MEMOIZE.clear()
        return formula

    return decorate


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the Kullback-Leibler divergence KL(p || q): the mean of log p - log q under p.

    Raises  NotImplementedError if no formula is registered for the two classes
    """
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _find(*pair)
    formula = _KL_MEMOIZE[pair]
    if formula is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
            f"{type(q).__name__}; register_kl() one, or average "
            "p.log_prob - q.log_prob over samples"
        )
    return formula(p, q)


def _find(type_p: type, type_q: type) -> Formula | None:
    matches = [
        (one, other)
        for one, other in _KL_REGISTRY
        if issubclass(type_p, one) and issubclass(type_q, other)
    ]
    if not matches:
        return None
    # The classes nearest in the method resolution orders are chosen: `by_p` compares the classes of
    # p first, `by_q` those of q.
    by_p = min(matches, key=lambda m: (_distance(type_p, m[0]), _distance(type_q, m[1])))
    by_q = min(matches, key=lambda m: (_distance(type_q, m[1]), _distance(type_p, m[0])))
    if _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        warn_caller(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning,
        )
    return _KL_REGISTRY[by_p]


def _distance(kind: type, base: type) -> int:
    """Return the position of base in kind's method resolution order.

    If base is not in this order (its metaclass implements __subclasscheck__), return the length of
    the order.
    """
    order = kind.__mro__
    return order.index(base) if base in order else len(order)


fold_public(__name__)

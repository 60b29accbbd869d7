"""Gradients of norms that are known divided by the norm, for second derivatives at 0.

The slope of a norm n at x is x / n. At 0 it has no limit, and n passes on a gradient of 0 there.
But n**2 has a gradient of 2n, and 2n * x / n = 2x has a derivative at 0 as well. So the derivative
of n**2 notes with its gradient g = 2n the quotient g / n = 2. The norm's derivative takes x times
the quotient where there is one. Forward mode is the same the other way round: the norm notes with
its tangent x * v / n the product x * v, and n**2 has the tangent 2 * x * v.

A note holds for one norm, whose array it names, and until the gradient is changed in place. It is
lost where gradients of several functions of one norm add up, and in functions that note nothing:
the second derivatives at 0 are NaN then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..graph.call_node import kind_of
from ..tensor.tensor import Tensor

# The ops whose results are norms, by name.
NORMS = frozenset({"distance_root", "vector_norm"})


def noted_quotient(g: Any, norm: Tensor) -> Any:
    """Return g / norm if that is noted with the gradient g of a norm; else None."""
    return _noted(g, "_quotient", norm)


def note_product(tangent: Tensor, norm: Tensor, product: Tensor) -> None:
    """Note with the tangent of a norm its product with the norm."""
    _note(tangent, "_product", norm, product)


def noting_quotients(made: Callable[..., Any], quotient: Callable[..., Any]) -> Callable[..., Any]:
    """Return a derivative that does as `made`, and notes the quotient by a norm that it is of.

    `quotient` takes the same arguments, of which the first is the norm and the last one g, and is
    linear in g; it returns None where the gradient at 0 is not a multiple of the norm.
    """

    def derive(*given: Any) -> Any:
        input, g = given[0], given[-1]
        product = _noted(g, "_product", input)
        if product is not None:
            found = quotient(*given[:-1], product)
            if found is not None:
                return found
        found = made(*given)
        if _is_norm(input):
            share = quotient(*given)
            if share is not None:
                _note(found, "_quotient", input, share)
        return found

    return derive


def _is_norm(tensor: Any) -> bool:
    edge = getattr(tensor, "edge", None)
    of = None if edge is None else getattr(kind_of(edge), "of", None)
    return of is not None and of.name in NORMS


def _note(tensor: Tensor, name: str, norm: Tensor, value: Tensor) -> None:
    tensor.__dict__[name] = norm.array, tensor._version, value


def _noted(tensor: Any, name: str, norm: Any) -> Any:
    note: Sequence[Any] | None = getattr(tensor, "__dict__", {}).get(name)
    if note is None or note[0] is not norm.array or note[1] != tensor._version:
        return None
    return note[2]

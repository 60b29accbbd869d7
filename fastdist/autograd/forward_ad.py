"""Forward mode: dual tensors carry a tangent through every op, within a level.

    with dual_level():
        y = f(make_dual(x, t))
        value, jvp = unpack_dual(y)

Levels nest, for higher derivatives. They belong to the process, not to a thread.
graph/forward_grad.py has the levels and tangents; dispatch/tangents.py carries tangents through
ops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from ..core.errors import GraphError, ShapeError
from ..core.short_repr import short_repr
from ..graph.accumulate_grad import extra_of
from ..graph.forward_grad import ForwardADLevel
from ..graph.lazy_conj_neg import LazyConjNeg, lazy_view
from ..graph.tensor_tangents import below, levels_of, set_tangent, tangent_of
from ..interpreters.batched_tensor import base_of, level_of, levels, rebatched
from ..ops.shape.views import view
from ..tensor.tensor import OWN_TANGENT, Tensor

F = TypeVar("F", bound=Callable[..., Any])
Level = int | ForwardADLevel


class UnpackedDualTensor(NamedTuple):
    """A value and its tangent; `tangent` is None for a value without a tangent."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Open a new innermost level, and return its index."""
    return ForwardADLevel.get_next_idx()


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the innermost level and remove its tangents.

    Raises  RuntimeError if level is not the innermost one, or if none is open
    """
    innermost = ForwardADLevel.count() - 1
    if level is None:
        level = innermost
    if level != innermost:
        raise GraphError(
            "Trying to exit a forward AD level that was not the last one that was created. This "
            "is not supported. "
            f"Given was {short_repr(level)}, the last one is {innermost}"
        )
    if level < 0:
        raise GraphError("Dual level must be a positive number. No level is open")
    ForwardADLevel.release_idx(level)


class dual_level:
    """A block with its own level; also a decorator."""

    def __init__(self) -> None:
        self._levels: list[int] = []

    def __enter__(self) -> int:
        self._levels.append(enter_dual_level())
        return self._levels[-1]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        exit_dual_level(level=self._levels.pop())

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with dual_level():
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


def make_dual(tensor: Tensor, tangent: Tensor, *, level: Level | None = None) -> Tensor:
    """Return a view of `tensor` that has `tangent` at `level` (None means the innermost level).

    Shape   tangent must have tensor's shape
    Raises  RuntimeError if no level is open, if tangent has another shape, or if tensor already has
            a tangent at level; ValueError for a dtype that is neither floating point nor complex
    """
    depth = level_of((tensor, tangent)) if levels.depth else 0
    if depth:  # under vmap: make the unbatched tensors dual
        primal, moving = base_of(tensor, depth), base_of(tangent, depth)
        return rebatched(make_dual(primal, moving, level=level), depth)
    at = _resolve(level)
    if at is None:
        raise GraphError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    for name, given in (("primal", tensor), ("tangent", tangent)):
        if not given._layout.dtype.may_have_gradient:
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: {given._layout.dtype}"
            )
    _require_fit(tensor, tangent, at)
    if isinstance(tensor, LazyConjNeg):
        seen = make_dual(tensor.value, tensor.change(tangent), level=at)
        return lazy_view(seen, tensor.change)
    # The dual is a view in the reverse-mode graph, but has separate tangents: see Note [Tangents
    # of views].
    dual: Tensor = view.general((tensor,), (tensor._layout.shape,))
    extra_of(dual).tangent_root = OWN_TANGENT
    for outer in levels_of((tensor,)):
        if outer is not at:
            set_tangent(dual, tangent_of(tensor, outer), outer)
    set_tangent(dual, tangent, at)
    return dual


def unpack_dual(tensor: Tensor, *, level: Level | None = None) -> UnpackedDualTensor:
    """Return `tensor` without its tangent at `level`, and that tangent (None: innermost level)."""
    depth = level_of((tensor,)) if levels.depth else 0
    if depth:
        parts = unpack_dual(base_of(tensor, depth), level=level)
        tangent = None if parts.tangent is None else rebatched(parts.tangent, depth)
        return UnpackedDualTensor(rebatched(parts.primal, depth), tangent)
    at = _resolve(level)
    if at is None:
        return UnpackedDualTensor(tensor, None)
    tangent = tangent_of(tensor, at)
    if isinstance(tensor, LazyConjNeg):
        primal = lazy_view(unpack_dual(tensor.value, level=at).primal, tensor.change)
        return UnpackedDualTensor(primal, tangent)
    return UnpackedDualTensor(tensor if tangent is None else below(tensor, at), tangent)


def _resolve(level: Level | None) -> ForwardADLevel | None:
    if level is None:
        return ForwardADLevel.current()
    if isinstance(level, ForwardADLevel):
        return level
    return None if level < 0 else ForwardADLevel.get_by_idx(level)


def _require_fit(tensor: Tensor, tangent: Tensor, at: ForwardADLevel) -> None:
    number = at.global_id if at.idx is None else at.idx
    if tangent_of(tensor, at) is not None:
        raise GraphError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the "
            "same level "
            f"{number} is not supported."
        )
    if tangent_of(tangent, at) is not None:
        raise GraphError(
            "Setting a forward grad that itself has a forward gradient at the same level "
            f"{number} is not supported."
        )
    if tangent._layout.shape != tensor._layout.shape:
        raise ShapeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            "Tensor, this is not "
            f"supported. Tensor is of size {list(tensor._layout.shape)} while the given forward "
            "gradient is of size "
            f"{list(tangent._layout.shape)}."
        )
    if (
        tangent._layout.dtype is not tensor._layout.dtype
        or tangent._layout.device is not tensor._layout.device
    ):
        raise GraphError(
            f"Expected tangent to be {tensor._layout.dtype.name} on {tensor._layout.device} as the "
            "primal, but got "
            f"{tangent._layout.dtype.name} on {tangent._layout.device}"
        )


__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

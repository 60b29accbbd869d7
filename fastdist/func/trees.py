"""Trees of arguments and results: their tensors, and checks of argnums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.sequences import all_of
from ..core.short_repr import short_repr
from ..ops.create.ranges import eye
from ..tensor.pytree import tree_flatten, tree_leaves
from ..tensor.tensor import Tensor

Argnums = int | tuple[int, ...]
Build = Callable[[Sequence[Any]], Any]


def flatten(tree: Any) -> tuple[list[Any], Build]:
    """Return the tensors in a tree, and a function that builds the same tree from other tensors."""
    leaves, spec = tree_flatten(tree)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]

    def build(tensors: Sequence[Any]) -> Any:
        built = list(leaves)
        for i, one in zip(places, tensors, strict=True):
            built[i] = one
        return spec.unflatten(built)

    return [leaves[i] for i in places], build


def flatten_result(value: Any, what: str) -> tuple[list[Any], Build]:
    """Flatten the result of a function that `what` differentiates.

    Raises  RuntimeError if the result holds something other than tensors, or nothing
    """
    ys, build = flatten(value)
    if not isinstance(value, Tensor):
        require_tensors(value, RuntimeError, f"{what}(f): expected f to return only tensors")
        if not ys:
            raise RuntimeError(f"{what}(f): expected f to return a tensor, got {short_repr(value)}")
    return ys, build


def require_tensors(tree: Any, kind: type[Exception], expected: str) -> None:
    """Raise an error if a tree holds something other than tensors. Other values can be passed in
    arguments that argnums does not select, or in the function's closure.
    """
    for leaf in tree_leaves(tree):
        if not isinstance(leaf, Tensor):
            raise kind(f"{expected}, got {type(leaf)}")


def argument_numbers(args: tuple[Any, ...], argnums: Argnums) -> list[int]:
    numbers = [argnums] if isinstance(argnums, int) else all_of(argnums)
    for i in numbers:
        if not -len(args) <= i < len(args):
            raise RuntimeError(
                f"Got argnum={short_repr(i)}, but only {len(args)} positional inputs"
            )
    return [i % len(args) for i in numbers]


def of_argnums(chosen: Any, argnums: Argnums) -> Any:
    return chosen[0] if isinstance(argnums, int) else tuple(chosen)


def split_aux(value: Any, has_aux: bool, what: str) -> tuple[Any, Any]:
    if not has_aux:
        return value, None
    if not isinstance(value, tuple) or len(value) != 2:
        raise RuntimeError(
            f"{what}(f, has_aux=True): output of function f should be a tuple: (output, aux), got "
            f"{type(value).__name__}"
        )
    return value


def unit_tensors(like: Any) -> Any:
    """Return a stack of one tensor per element of `like`: 1 at that element, and 0 elsewhere."""
    n = like.numel()
    found: Any = eye(n, dtype=like.dtype, device=like.device)
    return found.reshape(n, *like.shape)

"""Weighted sums of neighbours along several axes, used for averages and interpolation.

A `Taps` describes one axis: the elements that contribute to output i, and their weights. A `Taps`
is a sparse matrix. The gradient of `weigh` needs the transposed matrix, so the op `weigh` also
computes its own gradient. The sums are deterministic: one thread computes each element of a
gradient as one sum.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.dtypes import DType, float64
from ...dispatch.node_writer import OpNode
from ...dispatch.structured import Plan, structured
from ...tensor.tensor import Tensor
from ..device_constants import on_device


class Taps(NamedTuple):
    """Output i is the sum of weights[k] * x[places[k]] for k in
    range(starts[i], starts[i + 1]).
    """

    starts: np.ndarray[Any, Any]
    places: np.ndarray[Any, Any]
    weights: np.ndarray[Any, Any]

    def transposed(self, length: int) -> Taps:
        """Return the taps of the adjoint, which has `length` outputs."""
        outputs = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        order = np.argsort(self.places, kind="stable")
        counts = np.bincount(self.places, minlength=length)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Taps(starts, outputs[order], self.weights[order])


def taps_of_ranges(first: np.ndarray[Any, Any], end: np.ndarray[Any, Any]) -> Taps:
    """Return taps that sum the elements first[i] to end[i] - 1, each with weight 1."""
    counts = np.maximum(end - first, 0)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    places = np.arange(starts[-1]) + np.repeat(first - starts[:-1], counts)
    return Taps(starts, places, np.ones(starts[-1]))


# The functions that make taps, by name. An op's attributes hold the name and arguments of such a
# function instead of the taps.
MAKERS: dict[str, Callable[..., Taps]] = {}


def makes_taps(function: Callable[..., Taps]) -> Callable[..., Taps]:
    """Register a function that makes taps; its first arguments are the input and output lengths."""
    MAKERS[function.__name__] = function
    return function


def weighed(input: Tensor, recipes: Sequence[tuple[Any, ...]], adjoint: bool = False) -> Any:
    """Return weighted sums along the last axes of input. `recipes` has one tuple for each axis:
    (name of a function in MAKERS, input length, output length, further arguments...).
    """
    op = _mean if recipes[0][0] in ("windows", "parts") else weigh
    return op.public(input, *operands_of(input, recipes, adjoint), adjoint)


def operands_of(
    input: Tensor, recipes: Sequence[tuple[Any, ...]], adjoint: bool = False
) -> tuple[Any, Any, Any]:
    """Return the operands of `weigh` after input: the tables of the taps, and the recipes."""
    recipes = tuple(recipes)
    given = on_device(input._layout.device, _arrays, recipes, adjoint, input._layout.dtype)
    return *given, recipes  # type: ignore[return-value]


@functools.lru_cache(maxsize=256)
def _arrays(recipes: Any, adjoint: bool, dtype: DType) -> tuple[Any, Any]:
    """Return the taps of three axes, concatenated for the kernel. If there are fewer than three
    recipes, axes with a single element come first.
    """
    single = Taps(np.array([0, 1]), np.array([0]), np.ones(1))
    axes = (*[single] * (3 - len(recipes)), *_taps(recipes, adjoint))
    wide: Any = np.float64 if dtype is float64 else np.float32
    if not dtype.is_floating_point:
        wide = np.int64
    table = np.concatenate([part for one in axes for part in (one.starts, one.places)])
    return table.astype(np.int64), np.concatenate([one.weights for one in axes]).astype(wide)


@functools.lru_cache(maxsize=256)
def _taps(recipes: Any, adjoint: bool) -> tuple[Taps, ...]:
    made = [MAKERS[name](*arguments) for name, *arguments in recipes]
    if not adjoint:
        return tuple(made)
    return tuple([one.transposed(recipe[1]) for one, recipe in zip(made, recipes, strict=True)])


@structured(
    "nn.weighted_neighbours.weigh", linear=True, fresh=True, homes="nowhere", batch="first axis"
)
def weigh(input: Tensor, table: Tensor, weights: Tensor, recipes: Any, adjoint: bool) -> Tensor:
    """Return weighted sums along the last axes of input."""


@weigh.names_event
def _known_as(operands: Any, attributes: Any) -> str:
    """Return PyTorch's name for the op with these recipes, or for the gradient of that op."""
    recipes, is_adjoint = attributes
    maker, axes = recipes[0][0], len(recipes)
    if maker == "windows":
        name = f"avg_pool{max(axes, 2)}d"
    elif maker == "parts":
        name = f"_adaptive_avg_pool{max(axes, 2)}d"
    else:
        name = _upsampled(recipes[0], axes)
    return f"{name}_backward" if is_adjoint else name


def _upsampled(recipe: Any, axes: int) -> str:
    maker, more = recipe[0], recipe[4:]
    if maker == "filtered":
        return f"_upsample_{'bicubic' if more[1] == 'bicubic' else 'bilinear'}2d_aa"
    if maker == "nearest_exact":
        return f"_upsample_nearest_exact{axes}d"
    known = {"linear": ("linear", "bilinear", "trilinear")[axes - 1], "cubic": "bicubic"}
    return f"upsample_{known.get(maker, maker)}{axes}d"


@weigh.names_node
def _(node: OpNode) -> str:
    return _known_as((), node.naming_route.attributes)


@weigh.plan
def _(input: Tensor, table: Tensor, weights: Tensor, recipes: Any, adjoint: bool) -> Plan:
    lead = input._layout.shape[: len(input._layout.shape) - len(recipes)]
    lengths = tuple([recipe[1 if adjoint else 2] for recipe in recipes])
    counts = tuple([len(one.places) for one in _taps(recipes, adjoint)])
    return Plan((*lead, *lengths), input._layout.dtype, (counts,))


@weigh.vjp("input")
def _(g: Tensor, recipes: Any, adjoint: bool) -> Any:
    return weighed(g, recipes, not adjoint)


_mean = weigh.in_steps()
summed: Any = _mean.public  # `weigh` for recipes that only sum windows or parts of an axis

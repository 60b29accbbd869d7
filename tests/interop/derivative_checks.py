"""Derivatives of an op of PyTorch's database, computed in the same way in each library."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fastdist
from tests.interop.databases import Translation, array, function, tensors, word

Found = dict[str, Any]


class Side:
    """A sample in one library: the function, its arguments, and the inputs to differentiate."""

    def __init__(self, library: Any, call: Any, given: Any, after: Any, xs: Sequence[Any]) -> None:
        self.library, self.call, self.after, self.xs = library, call, after, list(xs)
        self.args, self.kwargs = given
        self.numbers = np.random.default_rng(7)

    def outputs(self, **instead: Any) -> list[Any]:
        """Return the op's results; `instead` replaces some of its tensors."""
        places = {id(x): new for x, new in zip(instead.get("old", ()), instead.get("new", ()))}
        args, kwargs = _replaced(self.args, places), _replaced(self.kwargs, places)
        return tensors(self.after(self.call(*args, **kwargs)))

    def draw(self, like: Any) -> Any:
        """Return random numbers of the shape and dtype of a tensor, the same on both sides."""
        drawn = self.numbers.standard_normal(tuple(like.shape))
        if like.dtype.is_complex:
            drawn = drawn + 1j * self.numbers.standard_normal(tuple(like.shape))
        return self.library.from_numpy(np.asarray(drawn)).to(like.dtype)

    def gradients(self, ys: Sequence[Any], xs: Sequence[Any], gs: Sequence[Any], **how: Any) -> Any:
        """Return the result of autograd.grad, with None for unused inputs."""
        return list(self.library.autograd.grad(ys, xs, gs, allow_unused=True, **how))


def sides(torch: Any, info: Any, sample: Any) -> tuple[Side, Side]:
    """Return a sample in fastdist and in PyTorch."""
    translation = Translation(torch)
    theirs = ((sample.input, *sample.args), sample.kwargs)
    ours = translation.value(theirs)
    xs = []
    for x in tensors(theirs):
        if x.requires_grad and not x.is_sparse and not any(x is known for known in xs):
            xs.append(x)
    after = sample.output_process_fn_grad
    twins = [translation.tensors[id(x)] for x in xs]
    return (
        Side(fastdist, function(torch, info), ours, word(torch, after), twins),
        Side(torch, info.op, theirs, after, xs),
    )


def _replaced(tree: Any, places: dict[int, Any]) -> Any:
    if isinstance(tree, list | tuple) and type(tree) in (list, tuple):
        return type(tree)([_replaced(one, places) for one in tree])
    if isinstance(tree, dict):
        return {name: _replaced(one, places) for name, one in tree.items()}
    return places.get(id(tree), tree)


# ---- checks of either library --------------------------------------------------------------------


def first(side: Side, **how: Any) -> tuple[Found, list[Any], list[Any]]:
    """Return the outputs, whether each requires grad, and the gradients for random cotangents."""
    ys = side.outputs()
    found: Found = {f"output {i}": y for i, y in enumerate(ys)}
    found["which outputs require grad"] = [y.requires_grad for y in ys]
    ys = [y for y in ys if y.requires_grad]
    gs = [side.draw(y).requires_grad_() for y in ys]
    gradients = side.gradients(ys, side.xs, gs, **how) if ys else []
    found.update({f"gradient {i}": g for i, g in enumerate(gradients)})
    return found, gradients, gs


def backward(side: Side) -> Found:
    """Return the gradients of all inputs."""
    return first(side)[0]


def backward_to_each(side: Side) -> Found:
    """Return the gradients of each input alone, if there are several."""
    found, xs = {}, side.xs
    for i, x in enumerate(xs if 1 < len(xs) < 5 else []):
        side.xs = [x]
        for one in xs:
            one.requires_grad_(one is x)
        found.update({f"{name}, of input {i}": value for name, value in first(side)[0].items()})
    for one in xs:
        one.requires_grad_()
    side.xs = xs
    return found


def second(side: Side) -> Found:
    """Return gradients of a random projection of the gradients, or None."""
    _, gradients, gs = first(side, create_graph=True)
    ys = [g for g in gradients if g is not None]
    projections = [side.draw(y) for y in ys]
    pairs = [(y, p) for y, p in zip(ys, projections) if y.requires_grad]
    others = side.xs + gs
    result = side.gradients(*_columns(pairs, others)) if pairs else [None] * len(others)
    return {f"second gradient {i}, maybe of nothing": g for i, g in enumerate(result)}


def _columns(pairs: Any, others: Any) -> tuple[Any, Any, Any]:
    return [y for y, _ in pairs], others, [p for _, p in pairs]


def tangents(side: Side) -> Found:
    """Return tangents in forward mode."""
    forward = side.library.autograd.forward_ad
    with forward.dual_level():
        new = [forward.make_dual(x.detach(), side.draw(x)) for x in side.xs]
        found = [forward.unpack_dual(y).tangent for y in side.outputs(old=side.xs, new=new)]
    return {f"tangent {i}": t for i, t in enumerate(found)}


def tangents_of_gradients(side: Side) -> Found:
    """Return tangents of gradients: forward mode over backward."""
    forward = side.library.autograd.forward_ad
    with forward.dual_level():
        new = [forward.make_dual(x.detach().requires_grad_(), side.draw(x)) for x in side.xs]
        ys = [y for y in side.outputs(old=side.xs, new=new) if y.requires_grad]
        gs = [side.draw(y) for y in ys]
        gradients = side.gradients(ys, new, gs, create_graph=True) if ys else []
        found = [None if g is None else forward.unpack_dual(g).tangent for g in gradients]
    return {f"tangent of gradient {i}, maybe of nothing": t for i, t in enumerate(found)}


def batches(side: Side) -> Found:
    """Return outputs for a batch of the first tensor, along the first or last axis, and of all
    tensors.
    """
    xs, found = side.xs, {}
    for some, dim in [(xs[:1], 0), (xs[:1], -1), (xs, 0)]:
        given = [_stacked(side.library, x, dim) for x in some]

        def call(*new: Any, some: Any = some) -> Any:
            return tuple(side.outputs(old=some, new=new))

        ys = side.library.func.vmap(call, in_dims=dim)(*given)
        found.update({f"output {i} for {len(some)} along {dim}": y for i, y in enumerate(ys)})
    return found


def gradients_of_batches(side: Side) -> Found:
    """Return the gradients for each element of a batch."""
    library = side.library
    gs = [side.draw(y) for y in side.outputs() if y.requires_grad]

    def loss(*new: Any) -> Any:
        ys = [
            y for y in side.outputs(old=side.xs, new=new) if y.is_floating_point() or y.is_complex()
        ]
        parts = [
            library.abs(y * g).sum() if y.is_complex() else (y * g).sum() for y, g in zip(ys, gs)
        ]
        return sum(parts[1:], parts[0])

    given = [_stacked(library, x, 0) for x in side.xs]
    each = library.func.grad(loss, argnums=tuple(range(len(given))))
    found = library.func.vmap(each)(*given)
    return {f"gradient {i} of each": g for i, g in enumerate(found)}


def _stacked(library: Any, x: Any, dim: int) -> Any:
    y = x.detach()
    return library.stack([y, y * 0.875], dim if y.dim() else 0)


CHECKS: dict[str, tuple[Callable[[Side], Found], str]] = {
    "backward": (backward, "supports_autograd"),
    "backward to each": (backward_to_each, "supports_autograd"),
    "second": (second, "supports_gradgrad"),
    "tangents": (tangents, "supports_forward_ad"),
    "tangents of gradients": (tangents_of_gradients, "supports_fwgrad_bwgrad"),
    "batches": (batches, "supports_autograd"),
    "gradients of batches": (gradients_of_batches, "supports_autograd"),
}


# ---- comparison of the results -------------------------------------------------------------------


def difference(check: str, ours: Side, theirs: Side) -> str | None:
    """Return the difference of the results; None if they agree, or PyTorch has no result."""
    ask = CHECKS[check][0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = ask(theirs)
        except Exception:
            return None
        try:
            found = ask(ours)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    for name, value in wanted.items():
        if (told := unlike(name, found.get(name), value)) is not None:
            return f"{name}: {told}"
    return None


def unlike(name: str, ours: Any, theirs: Any) -> str | None:
    if isinstance(theirs, list):
        return None if ours == theirs else f"{ours} for {theirs}"
    if ours is None or theirs is None:
        other = theirs if ours is None else ours
        if other is None or ("maybe of nothing" in name and not array(other).any()):
            return None
        return f"{'None' if ours is None else 'a tensor'} where theirs is the other"
    facts = [(tuple(x.shape), str(x.dtype).split(".")[-1]) for x in (ours, theirs)]
    if facts[0] != facts[1]:
        return f"{facts[0]} for {facts[1]}"
    x, y = array(ours.to_dense()), array(theirs.to_dense())
    if not y.size:
        return None
    finite = np.abs(np.where(np.isfinite(y), y, 0))
    tolerance = 1e-7 if y.dtype.itemsize > 4 and y.dtype != np.complex64 else 2e-3
    near = np.isclose(x, y, rtol=tolerance, atol=tolerance * max(1, finite.max()), equal_nan=True)
    if near.all():
        return None
    place = tuple(np.argwhere(~near)[0].tolist())
    return f"{x[place]} for {y[place]} at {place}, {int((~near).sum())} of {near.size}"

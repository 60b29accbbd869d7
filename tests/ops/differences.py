"""Check derivatives against finite differences along random directions.

v^T J u is one number, for a Jacobian J and random v and u. It is cheap to compute by differences,
and almost surely wrong if an entry of J is wrong. All computations are in float64.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fastdist as fd
from fastdist.engine.backward import grad
from fastdist.graph.forward_grad import ForwardADLevel
from fastdist.graph.tensor_tangents import set_tangent, tangent_of

Array = Any
Function = Callable[..., Any]
STEP = 1e-6


def generator(name: str) -> np.random.Generator:
    """Return the random generator of a test, which gives the same numbers in each run."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def leaf(array: Array) -> fd.Tensor:
    return fd.tensor(np.asarray(array, np.float64), requires_grad=True)


def project(f: Function, arrays: Sequence[Array], v: Array) -> float:
    value = f(*[fd.tensor(np.asarray(a, np.float64)) for a in arrays])
    return float(np.sum(value.numpy() * v))


def difference(g: Callable[..., float], arrays: Sequence[Array], u: Sequence[Array]) -> float:
    """Return the derivative of g along u, by central differences."""
    plus = g(*[a + STEP * d for a, d in zip(arrays, u)])
    minus = g(*[a - STEP * d for a, d in zip(arrays, u)])
    return (plus - minus) / (2 * STEP)


def close(found: float, expected: float, *, tolerance: float = 1e-5) -> None:
    assert abs(found - expected) <= tolerance * max(1.0, abs(expected)), (found, expected)


def check_first_order(f: Function, arrays: Sequence[Array], random: np.random.Generator) -> None:
    """Compare the vjp and the jvp of f with finite differences."""
    value = f(*[leaf(a) for a in arrays])
    v = random.standard_normal(tuple(value.shape))
    u = [random.standard_normal(np.shape(a)) for a in arrays]
    expected = difference(lambda *moved: project(f, moved, v), arrays, u)
    close(_along(vjp(f, arrays, v), u), expected)
    tangent = jvp(f, arrays, u)
    close(0.0 if tangent is None else float(np.sum(tangent * v)), expected)


def vjp(f: Function, arrays: Sequence[Array], v: Array) -> list[Array]:
    leaves = [leaf(a) for a in arrays]
    value = f(*leaves)
    found = grad((value,), leaves, (fd.tensor(np.asarray(v, np.float64)),), allow_unused=True)
    for one, g in zip(leaves, found):
        assert g is None or g.shape == one.shape
    return [np.zeros(a.shape) if g is None else g.detach().numpy() for a, g in zip(leaves, found)]


def jvp(f: Function, arrays: Sequence[Array], u: Sequence[Array]) -> Array | None:
    """Return the tangent of f's value, or None if the value has no tangent."""
    level = ForwardADLevel.get_next_idx()
    try:
        duals = []
        for array, direction in zip(arrays, u):
            dual = fd.tensor(np.asarray(array, np.float64))
            set_tangent(dual, fd.tensor(np.asarray(direction, np.float64)), level)
            duals.append(dual)
        value = f(*duals)
        tangent = tangent_of(value, level)
        if tangent is None:
            return None
        assert tangent.shape == value.shape
        return tangent.detach().numpy()
    finally:
        ForwardADLevel.release_idx(level)


def check_second_order(f: Function, arrays: Sequence[Array], random: np.random.Generator) -> None:
    """Compare the gradient of (the gradient times u) with differences of that product."""
    shape = tuple(f(*[leaf(a) for a in arrays]).shape)
    v = random.standard_normal(shape)
    u = [random.standard_normal(np.shape(a)) for a in arrays]
    w = [random.standard_normal(np.shape(a)) for a in arrays]
    expected = difference(lambda *moved: _along(vjp(f, moved, v), u), arrays, w)
    leaves = [leaf(a) for a in arrays]
    gradient = leaf(v)
    first = grad((f(*leaves),), leaves, (gradient,), create_graph=True, allow_unused=True)
    parts = [(g * fd.tensor(d)).sum() for g, d in zip(first, u) if g is not None]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    if not total.requires_grad:
        close(0.0, expected, tolerance=1e-4)
        return
    second = grad((total,), [*leaves, gradient], allow_unused=True)
    found = [np.zeros(np.shape(a)) if g is None else g.numpy() for a, g in zip(arrays, second)]
    close(_along(found, w), expected, tolerance=1e-4)
    # The gradient is linear in v, so the derivative of (gradient times u) by v is the tangent.
    tangent = jvp(f, arrays, u)
    if tangent is not None and second[-1] is not None:
        assert np.allclose(second[-1].numpy(), tangent, rtol=1e-6, atol=1e-9)


def _along(gradients: Sequence[Array], u: Sequence[Array]) -> float:
    return float(sum(np.sum(g * d) for g, d in zip(gradients, u)))

"""Tangents next to NaN and infinity: one such element does not affect the other elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist.autograd import forward_ad as fwad

NAN, INF = math.nan, math.inf
PLAIN = fd.tensor([NAN, INF, 1.0])
FIRST = fd.tensor([0])

# Functions of x = (1, 2, 3) and of PLAIN. The tangent of x is (1, 2, 4); PLAIN has no tangent.
JOINED: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "cat": (lambda x: fd.cat([PLAIN, x]), [0, 0, 0, 1, 2, 4]),
    "stack": (lambda x: fd.stack([x, PLAIN]), [[1, 2, 4], [0, 0, 0]]),
    "cat of integers": (lambda x: fd.cat([fd.tensor([7]), x.to(fd.float16)]), [0, 1, 2, 4]),
    "index_add": (lambda x: PLAIN.index_add(0, FIRST, x[2:]), [4, 0, 0]),
    "scatter_add": (lambda x: PLAIN.scatter_add(0, FIRST, x[2:]), [4, 0, 0]),
    "scatter": (lambda x: PLAIN.scatter(0, FIRST, x[2:]), [4, 0, 0]),
    "scatter of what has none": (lambda x: x.scatter(0, FIRST, PLAIN[:1]), [0, 2, 4]),
    "index_put": (lambda x: PLAIN.index_put((FIRST,), x[2:]), [4, 0, 0]),
    "index_put of what has none": (lambda x: x.index_put((FIRST,), PLAIN[:1]), [0, 2, 4]),
    "a part written over": (lambda x: _written(PLAIN.clone(), x), [1, 0, 0]),
}


def _written(target: Any, x: Any) -> Any:
    target[0] = x[0]
    return target


@pytest.mark.parametrize("name", JOINED)
def test_what_has_no_tangent_adds_nothing_to_another_s(name: str) -> None:
    call, expected = JOINED[name]
    with fwad.dual_level():
        x = fwad.make_dual(fd.tensor([1.0, 2.0, 3.0]), fd.tensor([1.0, 2.0, 4.0]))
        found = call(x)
        tangent = fwad.unpack_dual(found).tangent
        assert tangent is not None
        assert (tangent.dtype, tangent.tolist()) == (found.dtype, expected)


OVER: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "zero_": (lambda x: x.zero_(), [0, 0, 0]),
    "fill_": (lambda x: x.fill_(2.0), [0, 0, 0]),
    "copy_": (lambda x: x.copy_(fd.ones(3)), [0, 0, 0]),
    "setitem": (lambda x: x.__setitem__(slice(0, 2), 5.0), [0, 0, 3]),
}


@pytest.mark.parametrize("name", OVER)
def test_a_tangent_that_is_written_over_leaves_nothing(name: str) -> None:
    write, expected = OVER[name]
    with fwad.dual_level():
        x = fwad.make_dual(fd.tensor([1.0, 2.0, 3.0]), fd.tensor([NAN, INF, 3.0])) * 1
        write(x)
        assert fwad.unpack_dual(x).tangent.tolist() == expected


@pytest.mark.parametrize(
    ("extreme", "given"),
    [(lambda x: x.amax(0), [1.0, 3.0, 3.0]), (lambda x: x.amin(0), [4.0, 3.0, 3.0])],
    ids=["amax", "amin"],
)
def test_an_extreme_along_an_axis_knows_only_what_ties(
    extreme: Callable[[Any], Any], given: list[float]
) -> None:
    x = fd.tensor(given, requires_grad=True)
    (g,) = fd.autograd.grad(extreme(x), x, fd.tensor(INF))
    with fwad.dual_level():
        dual = fwad.make_dual(x, fd.tensor([NAN, 1.0, 3.0]))
        assert fwad.unpack_dual(extreme(dual)).tangent.item() == 2.0
    assert g.tolist() == [0.0, INF, INF]


def test_detach_in_place_leaves_the_tangent_behind() -> None:
    with fwad.dual_level():
        x = fwad.make_dual(fd.ones(2), fd.ones(2)) * 3
        assert fwad.unpack_dual(x.detach_()).tangent is None
        assert fwad.unpack_dual(x * 2).tangent is None


def test_a_tangent_is_copied_in_the_dtype_it_is_copied_to() -> None:
    with fwad.dual_level():
        x = fwad.make_dual(fd.ones(2), fd.tensor([2.0, 3.0]))
        half = fd.zeros(2, dtype=fd.float16).copy_(x)
        tangent = fwad.unpack_dual(half).tangent
        assert (tangent.dtype, tangent.tolist()) == (fd.float16, [2.0, 3.0])
        assert fwad.unpack_dual(fd.zeros(2, dtype=fd.int64).copy_(x)).tangent is None


@pytest.mark.parametrize("loss", ["mse_loss", "smooth_l1_loss", "huber_loss"])
def test_a_target_of_bool_is_no_hindrance_to_derivatives(loss: str) -> None:
    function = getattr(fd.nn.functional, loss)
    target = fd.tensor([True, False])
    x = fd.tensor([0.5, 0.25], requires_grad=True)
    expected = fd.autograd.grad(function(x, target.float(), reduction="sum"), x)[0].tolist()
    (slope,) = fd.autograd.grad(function(x, target, reduction="sum"), x, create_graph=True)
    with fwad.dual_level():
        dual = fwad.make_dual(x.detach(), fd.tensor([1.0, 0.0]))
        tangent = fwad.unpack_dual(function(dual, target, reduction="sum")).tangent
        assert (slope.tolist(), tangent.item()) == (expected, expected[0])

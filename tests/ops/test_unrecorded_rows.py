"""Ops that combine axes give equal results in no_grad() and with a graph, each in new memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist
from fastdist.nn import functional
from fastdist.ops.unrecorded_rows import may_reshape

WEIGHT = fastdist.arange(12.0).reshape(3, 4).requires_grad_()
BIAS = fastdist.tensor([1.0, -2.0, 0.5], requires_grad=True)
PLACES = fastdist.tensor([[[2], [0]], [[1], [1]]])
OPS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "linear": (lambda x: functional.linear(x, WEIGHT, BIAS), fastdist.rand(2, 5, 4)),
    "linear without bias": (lambda x: functional.linear(x, WEIGHT), fastdist.rand(2, 1, 3, 4)),
    "linear of a vector": (lambda x: functional.linear(x, WEIGHT), fastdist.rand(4)),
    "linear of nothing": (lambda x: functional.linear(x, WEIGHT), fastdist.rand(2, 0, 4)),
    "linear of a view with gaps": (
        lambda x: functional.linear(x, WEIGHT),
        fastdist.rand(2, 5, 8)[..., ::2],
    ),
    "layer_norm": (lambda x: functional.layer_norm(x, (4,), WEIGHT[1]), fastdist.rand(2, 5, 4)),
    "layer_norm of two axes": (
        lambda x: functional.layer_norm(x, (3, 4), WEIGHT, WEIGHT),
        fastdist.rand(2, 3, 4),
    ),
    "embedding": (lambda x: functional.embedding(x, WEIGHT), PLACES),
    "embedding with padding": (lambda x: functional.embedding(x, WEIGHT, 1), PLACES),
}


@pytest.mark.parametrize("name", OPS)
def test_results_outside_of_the_graph_are_those_in_it(name: str) -> None:
    op, x = OPS[name]
    recorded = op(x)
    before = x.clone()
    with fastdist.no_grad():
        plain = op(x)
    assert recorded.requires_grad and not plain.requires_grad
    assert plain.shape == recorded.shape and plain.stride() == recorded.stride()
    assert fastdist.equal(plain, recorded.detach())
    assert plain._is_view() == name.endswith("with gaps")
    assert plain.untyped_storage().nbytes() == 4 * plain.numel()
    # The caller owns the result: writing to it must not change any operand.
    plain.add_(1.0)
    assert fastdist.equal(x, before) and fastdist.equal(plain, recorded.detach() + 1.0)


def test_an_inference_result_may_be_viewed_and_resized() -> None:
    with fastdist.inference_mode():
        found = functional.linear(fastdist.ones(2, 2, 4), WEIGHT)
        assert found.view(4, 3)[3].tolist() == [6.0, 22.0, 38.0]
        assert found.resize_(3, 2).tolist() == [[6.0, 22.0], [38.0, 6.0], [22.0, 38.0]]


def test_what_is_recorded_observed_or_has_gaps_is_left_to_views() -> None:
    x = fastdist.ones(2, 3)
    assert may_reshape(x) and may_reshape(x, (None, x))
    assert not may_reshape(x, (BIAS,)) and not may_reshape(BIAS)
    assert not may_reshape(x.t())
    with fastdist.no_grad():
        assert may_reshape(BIAS, (BIAS,))
    assert not may_reshape(fastdist.ones(2, 3, device="meta"))
    seen = []

    def inside(row: Any) -> Any:
        seen.append(may_reshape(row))
        return functional.linear(row, WEIGHT.detach())

    assert fastdist.vmap(inside)(fastdist.ones(2, 5, 4)).shape == (2, 5, 3)
    assert seen == [False]

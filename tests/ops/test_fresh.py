"""A Node that promises fresh gradients returns arrays that no other code holds.

The engine may store such an array as a leaf's `.grad`, and later add other gradients to it in
place. If the array belonged to the user, a later pass would silently change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.dispatch.structured import Plan, StructuredOp
from fastdist.graph.node import Node
from tests.ops.cases import Case
from tests.ops.pointwise.pointwise_rows import Row
from tests.ops.pointwise.test_pointwise import beyond_numpy as many_for
from tests.ops.pointwise.test_pointwise import differentiable, function_of, sample, shapes_for
from tests.ops.test_table import differentiated, every_differentiable_case

pytestmark = pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")


def nodes_of(result: fd.Tensor) -> list[Node]:
    """Return all Nodes of a result's graph, except those that accumulate into leaves."""
    found, waiting = [], [result.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found and not node.name().startswith("Accumulate"):
            found.append(node)
            waiting += [one for one, _ in node.next_functions]
    return found


def held_by(node: Node) -> Iterator[np.ndarray]:
    """Yield the arrays that a Node saved."""
    for cls in type(node).__mro__:
        for name in getattr(cls, "__slots__", ()):
            yield from _arrays(getattr(node, name, None))


def _arrays(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, fd.Tensor):
        yield value._array
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _arrays(one)


def ones_of(layout: Any) -> Any:
    """Return a gradient of ones for a Node's output layout, or a tuple for several outputs."""
    if isinstance(layout, tuple):
        return tuple(ones_of(one) for one in layout)
    return np.ones(layout.shape, layout.dtype.numpy)


def broken_promises(result: fd.Tensor, arrays: list[np.ndarray]) -> list[str]:
    """Return the names of Nodes whose fresh gradients share memory with other arrays.

    The other arrays are the other gradients, the tensors of the computation and saved arrays.
    """
    broken = []
    for node in nodes_of(result):
        if not node.fresh:
            continue
        g = ones_of(node.output_layout)
        held = [*_arrays(g), *arrays, *_arrays(result), *held_by(node)]
        made = [one for one in node.apply(g, True) if one is not None]
        pairs = [*combinations(made, 2), *((one, other) for one in made for other in held)]
        if any(np.may_share_memory(one, other) for one, other in pairs):
            broken.append(node.name())
    return broken


def leaves_of(arrays: list[np.ndarray], dtype: fd.dtype = fd.float64) -> list[fd.Tensor]:
    return [fd.tensor(array, dtype=dtype, requires_grad=True) for array in arrays]


@pytest.mark.one_in(5)
@every_differentiable_case
def test_gradients_of_structured_ops_are_fresh_where_promised(name: str, one: Case) -> None:
    f, arrays = differentiated(one, one.arrays(f"{name} fresh"))
    leaves = leaves_of(arrays)
    result = f(*leaves)
    assert broken_promises(result, [leaf._array for leaf in leaves]) == []


@pytest.mark.one_in(5)
@differentiable
def test_gradients_of_pointwise_ops_are_fresh_where_promised(row: Row) -> None:
    many = [(many_for(row.name),)] * 3
    for one in [*shapes_for(row), many]:
        # For many float32 numbers, ops use the kernels that test_pointwise.py compares with NumPy.
        dtype = fd.float32 if one is many else fd.float64
        # The second call takes the short path.
        for _ in range(2):
            leaves = leaves_of(sample(row, one, " fresh"), dtype)
            result = function_of(row)(*leaves)
            assert broken_promises(result, [leaf._array for leaf in leaves]) == []


def test_a_false_promise_is_found() -> None:
    def same(input: fd.Tensor) -> fd.Tensor:
        """Return a copy."""

    same.__annotations__["input"] = "Tensor"
    op = StructuredOp(same, "shape.copying.cast", linear=True, fresh=True)
    op.plan(lambda input: Plan(input._layout.shape, input._layout.dtype))
    op.vjp("input")(lambda g: g)
    (leaf,) = leaves_of([np.ones(3)])
    assert broken_promises(op.public(leaf), [leaf._array]) == ["SameBackward0"]


@pytest.mark.parametrize("length", [1, 3])
def test_a_gradient_of_the_user_s_own_stays_as_it_is(length: int) -> None:
    x = fd.ones(length, requires_grad=True)
    g = fd.ones(length, length)
    for _ in range(2):
        x.diag().backward(g)
    assert g.tolist() == np.ones((length, length)).tolist()

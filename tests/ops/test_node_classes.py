"""All Nodes with one name have one class, over all rows of the table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

import fastdist as fd
from fastdist.graph.call_node import ShownNode, kind_of
from tests.dispatch.node_names import CALLS, names_in
from tests.ops.pointwise.pointwise_rows import ROWS
from tests.ops.pointwise.test_pointwise import function_of, sample
from tests.ops.test_fresh import leaves_of, nodes_of
from tests.ops.test_table import DIFFERENTIABLE, differentiated


def results() -> Iterator[Any]:
    """Yield the results of all rows, and of the calls whose Node names are documented."""
    names = names_in(fd)
    yield from (eval(text, dict(names)) for text in CALLS)
    for name, one in (param.values for param in DIFFERENTIABLE):
        f, arrays = differentiated(one, one.arrays(f"{name} classes"))
        yield f(*leaves_of(arrays))
    for row in ROWS.values():
        if not row.differentiable:
            continue
        first, *others = leaves_of(sample(row, [(3, 4)] * 3, " classes"))
        yield function_of(row)(first, *others)
        twin = getattr(fd.Tensor, f"{row.public}_", None)
        if twin is not None:
            yield twin(first.clone(), *others, **row.numbers)


@pytest.mark.filterwarnings("ignore")
def test_all_nodes_of_a_name_are_of_one_class() -> None:
    classes, kinds = defaultdict[str, set[type]](set), defaultdict[str, set[type]](set)
    for result in results():
        for node in nodes_of(result):
            shares = isinstance(node, ShownNode) or node.is_accumulate
            assert shares, f"{node.name()} cannot share a class"
            classes[node.name()].add(type(node))
            kinds[node.name()].add(kind_of(node))
    assert {name: found for name, found in classes.items() if len(found) > 1} == {}
    # Some names must be shared by several kinds of Nodes, otherwise the test checks nothing.
    assert len(kinds["SubBackward0"]) > 1 and len(kinds["ViewBackward0"]) > 1

"""A Node that is shown to users gets the class with its name, and keeps the data of its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist.dispatch.inplace import copy_result
from fastdist.graph import call_node
from fastdist.graph.call_node import PLACES, CallNode, ShownNode, kind_of
from fastdist.graph.node import node_of


class Doubled(CallNode):
    """A Node that sets attributes that few Nodes set."""

    __slots__ = ()
    saved_names = ("factors",)
    accepts_undefined = fresh = takes_sparse = waits = True
    factors: list[int]

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Show the Node to the user, as a hook would, and return `g` times the factors' sum."""
        self.shown()
        return (g * sum(self.factors),)

    def release(self) -> None:
        """Drop the factors."""
        self.factors.clear()


def doubled() -> Doubled:
    node = Doubled()
    node.factors = [2]
    return node


def test_a_shown_node_says_what_its_kind_does() -> None:
    shown = doubled().shown()
    assert (type(shown).__name__, kind_of(shown)) == ("Doubled", Doubled)
    assert shown.accepts_undefined and shown.fresh and shown.takes_sparse and shown.waits
    views = fd.ones(4, requires_grad=True).mul(1).split(1)
    assert views[0].grad_fn.num_outputs == 4 and views[0].grad_fn.fresh


def test_a_node_that_is_shown_while_it_runs_goes_on() -> None:
    assert doubled().apply(3, keep=False) == (6,)


def test_a_shown_node_forgets_what_its_kind_does() -> None:
    node = doubled()
    node.shown().release()
    assert node.apply(3, keep=False) == (0,)


def test_nodes_of_two_kinds_that_are_called_the_same_are_of_one_class() -> None:
    x = fd.ones(2, 2, requires_grad=True)
    subtracted, shrunk, written = x - 1, fd.nn.functional.tanhshrink(x), x.clone().sub_(1)
    node_of(written._edge)._called = "SubBackward0"
    found = [one.grad_fn for one in (subtracted, shrunk, written)]
    assert len({type(one) for one in found}) == 1
    assert kind_of(found[0]) is not kind_of(found[1])


@pytest.mark.parametrize("call", [lambda x: 1 / x, lambda x: x * x], ids=["told", "plain"])
def test_a_node_that_two_threads_show_at_once_is_of_one_class_and_keeps_its_kind(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[Any], Any]
) -> None:
    x = fd.ones(2, requires_grad=True)
    y = call(x)
    kind, node = type(y._edge), y._edge
    name_of_call = kind.name_of_call

    def preempted(self: Any) -> str:
        monkeypatch.undo()
        node.shown()  # as another thread might do
        return name_of_call(self)

    monkeypatch.setattr(kind, "name_of_call", preempted)
    assert (type(node.shown()).__name__, node.kind) == ("MulBackward0", kind)
    y.sum().backward()
    assert x.grad.tolist() == (call(x * 1.001) - call(x)).mul(1000).round().tolist()


def test_two_threads_that_first_need_a_class_are_given_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(dict[str, type[ShownNode]]):
        def get(self, name: str, default: Any = None) -> Any:
            """Return None, as if the other thread had not added its class yet."""

    monkeypatch.setattr(call_node, "_CLASSES", Late())
    assert type(doubled().shown()) is type(doubled().shown())


def test_a_shown_node_has_what_its_kind_has_and_not_what_others_have() -> None:
    x = fd.ones(2, requires_grad=True)
    seen: Any = (x * x).grad_fn
    assert seen.op.name == "mul" and seen.input is x
    with pytest.raises(AttributeError, match="factors"):
        _ = seen.factors


def test_a_copy_is_called_after_what_was_computed_though_that_was_seen_first() -> None:
    x = fd.ones(2, requires_grad=True)
    computed, z = 1 / x, x.clone()
    assert computed.grad_fn.name() == "MulBackward0"
    assert copy_result(z, computed).grad_fn.name() == "MulBackward0"


def test_who_would_keep_more_than_there_are_places_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        type("Wide", (CallNode,), {"__slots__": (), "saved_names": (*PLACES, "one_more")})


def test_a_sparse_node_that_was_seen_forgets_and_says_so_by_its_name() -> None:
    x = fd.eye(2).requires_grad_()
    dense = x.to_sparse().to_dense()
    name = dense.grad_fn.name()
    assert type(dense.grad_fn).__name__ == name != "SparseNode"
    dense.sum().backward()
    with pytest.raises(RuntimeError, match=f"{name} freed them"):
        dense.sum().backward()

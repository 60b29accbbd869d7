"""A leaf and a Node keep each gradient and hook from concurrent threads exactly once."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from weakref import ref

import pytest

import fastdist
from fastdist import Tensor
from fastdist.autograd.graph import (
    disable_saved_tensors_hooks,
    get_gradient_edge,
    saved_tensors_hooks,
)
from fastdist.graph.accumulate_grad import accumulator_of, extra_of, freeze
from fastdist.graph.add_gradients import add_gradients, copy_gradient
from fastdist.graph.forward_grad import ForwardADLevel
from fastdist.graph.modes import count_special, count_tracers, modes, set_grad_mode
from fastdist.graph.node import Hooks, Node
from fastdist.tensor.storage import storage_of
from tests.disturbances.interleaving import Step, each_interleaving

WITHIN = ("graph/accumulate_grad.py", "graph/node.py", "graph/add_gradients.py")


def leaf(*values: float) -> Tensor:
    return fastdist.tensor(values or (1.0, 2.0), dtype=fastdist.float64, requires_grad=True)


def both(step: Callable[[], object]) -> tuple[Step, Step]:
    return step, step


def test_a_leaf_has_one_accumulator() -> None:
    found: list[Node] = []

    def prepare() -> tuple[Step, Step]:
        found.clear()
        x = fastdist.ones(2)
        return both(lambda: found.append(accumulator_of(x)))

    for _ in each_interleaving(prepare, *WITHIN):
        assert found[0] is found[1]


def test_a_leaf_that_comes_back_finds_its_accumulator() -> None:
    found: list[Node] = []

    def prepare() -> tuple[Step, Step]:
        x = leaf()
        found[:] = [accumulator_of(x)]
        freeze(x)
        return both(lambda: found.append(accumulator_of(x)))

    for _ in each_interleaving(prepare, *WITHIN):
        assert found[1] is found[0] is found[2]


def test_what_is_kept_beside_a_tensor_is_kept_in_one_place() -> None:
    found: list[Any] = []

    def prepare() -> tuple[Step, Step]:
        found.clear()
        x = fastdist.ones(2)
        return both(lambda: found.append(extra_of(x)))

    for _ in each_interleaving(prepare, *WITHIN):
        assert found[0] is found[1]


@pytest.mark.parametrize("kind", ["pre", "post", "after accumulation"])
def test_the_first_hooks_of_two_threads_are_both_kept(kind: str) -> None:
    called: list[int] = []
    register: dict[str, Callable[[Any, Any], object]] = {
        "pre": lambda node, hook: node.register_prehook(hook),
        "post": lambda node, hook: node.register_hook(hook),
        "after accumulation": lambda node, hook: node.register_post_accumulate_hook(hook),
    }
    nodes: list[Any] = []

    def prepare() -> tuple[Step, Step]:
        called.clear()
        nodes[:] = [accumulator_of(leaf())]
        return both(lambda: register[kind](nodes[0], lambda *_: called.append(1)))

    for _ in each_interleaving(prepare, *WITHIN):
        nodes[0].variable.sum().backward()
        assert called == [1, 1]


@pytest.mark.parametrize("is_recorded", [False, True])
def test_gradients_that_two_threads_bring_are_both_added(is_recorded: bool) -> None:
    leaves: list[Tensor] = []

    def prepare() -> tuple[Step, Step]:
        x, g = leaf(), fastdist.ones(2, dtype=fastdist.float64)
        leaves[:] = [x]
        accumulator = accumulator_of(x)
        if is_recorded:
            return both(lambda: accumulator.accumulate_recorded(g))
        return both(lambda: accumulator.accumulate(g._array, False))

    for _ in each_interleaving(prepare, *WITHIN):
        assert leaves[0].grad is not None and leaves[0].grad.tolist() == [2.0, 2.0]


def test_a_leaf_whose_handle_is_gone_is_made_anew_once() -> None:
    found: list[Tensor] = []

    def prepare() -> tuple[Step, Step]:
        found.clear()
        accumulator = accumulator_of(leaf(3.0))
        return both(lambda: found.append(accumulator.variable))

    for _ in each_interleaving(prepare, *WITHIN):
        assert found[0] is found[1] and found[0].tolist() == [3.0]


def test_threads_that_switch_recording_off_are_all_counted() -> None:
    def switch() -> None:
        set_grad_mode(False)
        set_grad_mode(True)

    before = modes.grad_off
    try:
        for _ in each_interleaving(
            lambda: (switch, lambda: set_grad_mode(False)), "graph/modes.py"
        ):
            # The second thread ended with recording switched off.
            assert modes.grad_off == before + 1
            modes.grad_off = before
    finally:
        modes.grad_off = before


@pytest.mark.parametrize(
    ("count", "name"), [(count_special, "special"), (count_tracers, "tracers")]
)
def test_what_two_threads_count_is_all_counted(count: Callable[[int], None], name: str) -> None:
    before = getattr(modes, name)
    for _ in each_interleaving(lambda: both(lambda: count(1)), "graph/modes.py"):
        assert getattr(modes, name) == before + 2
        count(-2)


# ---- errors and names of Nodes and leaves -------------------------------------------------------


def test_a_kind_of_node_that_says_not_what_it_does_is_named() -> None:
    class Silent(Node):
        """A Node without a backward."""

    for apply in (Silent().apply, Silent().apply_recorded):
        with pytest.raises(NotImplementedError, match=r"^Silent$"):
            apply(None, False)


def test_what_an_op_made_has_no_accumulator() -> None:
    y = leaf() * 2
    with pytest.raises(RuntimeError, match=r"^MulBackward0 made this tensor; only a leaf has"):
        accumulator_of(y)
    with pytest.raises(RuntimeError, match=r"^SplitWithSizesBackward0 made this tensor; "):
        accumulator_of(fastdist.split(y, [1, 1])[1])


def test_next_functions_are_nodes_with_the_numbers_of_their_outputs() -> None:
    x = leaf()
    first, second = fastdist.split(x * 2, [1, 1])
    y = second + first
    nodes = [node for node, _ in y.grad_fn.next_functions]
    assert nodes == [first.grad_fn, first.grad_fn] and nodes[0].name() == "SplitWithSizesBackward0"
    assert [number for _, number in y.grad_fn.next_functions] == [1, 0]
    assert get_gradient_edge(x).node.name() == "torch::autograd::AccumulateGrad"


def test_hooks_after_accumulation_may_take_themselves_away() -> None:
    x, called = leaf(), list[str]()
    accumulator = accumulator_of(x)

    def once(tensor: Tensor) -> None:
        called.append("once")
        handle.remove()

    handle = accumulator.register_post_accumulate_hook(once)
    accumulator.register_post_accumulate_hook(lambda tensor: called.append("always"))
    for _ in range(2):
        x.sum().backward()
    assert called == ["once", "always", "always"]


def test_who_retains_its_gradient_says_so() -> None:
    plain, x = fastdist.ones(2), leaf()
    first, second = fastdist.split(x * 2, [1, 1])
    second.retain_grad()
    assert [one.retains_grad for one in (plain, x, first, second)] == [False, False, False, True]
    x.retain_grad()
    assert not x.retains_grad


def test_hooks_are_something_once_there_is_one() -> None:
    node = (leaf() * 2).grad_fn
    assert not Hooks()
    for register in (node.register_hook, node.register_prehook):
        handle = register(lambda *_: None)
        assert node.hooks
        handle.remove()
        assert not node.hooks


def sparse(*values: float) -> Tensor:
    return fastdist.sparse_coo_tensor([[0, 2]], list(values), (3,), dtype=fastdist.float64)


@pytest.mark.parametrize("mine", [False, True])
def test_sparse_and_dense_gradients_become_one(mine: bool) -> None:
    with fastdist.no_grad():
        have = sparse(1.0, 2.0)
        total = add_gradients(have, sparse(10.0, 20.0), mine)
        assert total.is_sparse and total.to_dense().tolist() == [11.0, 0.0, 22.0]
        assert (total is have) == mine
        assert have.to_dense().tolist() == ([11.0, 0.0, 22.0] if mine else [1.0, 0.0, 2.0])
        dense = fastdist.ones(3, dtype=fastdist.float64)
        total = add_gradients(dense, sparse(1.0, 2.0), mine)
        assert total.tolist() == [2.0, 1.0, 3.0] and (total is dense) == mine
        assert dense.tolist() == ([2.0, 1.0, 3.0] if mine else [1.0, 1.0, 1.0])
        total = add_gradients(sparse(1.0, 2.0), fastdist.ones(3, dtype=fastdist.float64), mine)
        assert not total.is_sparse and total.tolist() == [2.0, 1.0, 3.0]


def test_a_sparse_gradient_that_grows_in_place_is_at_a_later_version() -> None:
    have = sparse(1.0, 2.0)
    before = storage_of(have).version  # saved tensors are compared with this version
    with fastdist.no_grad():
        assert add_gradients(have, sparse(0.0, 3.0), True) is have
    assert have.to_dense().tolist() == [1.0, 0.0, 5.0] and have._version == before + 1


def test_a_copy_of_a_gradient_shares_no_memory() -> None:
    dense = fastdist.ones(2, 3).t()
    copied = copy_gradient(dense)
    dense.fill_(5.0)
    assert copied.tolist() == [[1.0, 1.0]] * 3 and copied.is_contiguous()
    assert copy_gradient(sparse(1.0, 2.0)).to_dense().tolist() == [1.0, 0.0, 2.0]


def test_retaining_a_gradient_twice_is_retaining_it() -> None:
    y = leaf() * 2
    y.retain_grad()
    y.retain_grad()
    (y * 3).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [3.0, 3.0]


def test_a_leaf_that_came_back_into_the_graph_may_die() -> None:
    x = leaf()
    accumulator = accumulator_of(x)
    x.requires_grad_(False)
    x.requires_grad_(True)
    assert accumulator_of(x) is accumulator
    watched = ref(x)
    del x
    gc.collect()
    assert watched() is None and accumulator.variable.tolist() == [1.0, 2.0]


def test_what_has_something_beside_it_is_no_view_for_that() -> None:
    plain = fastdist.ones(2)
    extra_of(plain)
    assert [one._is_view() for one in (plain, plain[:1], fastdist.ones(2))] == [False, True, False]


def test_a_gradient_may_be_taken_away_where_there_is_none() -> None:
    x, y = fastdist.ones(2), leaf()
    for one in (x, y):
        one.grad = None
        assert one.grad is None
    x.grad = fastdist.full((2,), 3.0)
    assert x.grad is not None and x.grad.tolist() == [3.0, 3.0]
    # A gradient set before x required grad is kept, and later gradients are added to it.
    x.requires_grad_(True)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    x.grad = None
    assert x.grad is None


def test_a_leaf_that_is_out_of_the_graph_keeps_what_it_is_given_for_its_return() -> None:
    x = leaf()
    (x * 2).sum().backward()
    x.requires_grad_(False)
    assert not x.requires_grad and not (x * 2).requires_grad
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0]
    x.grad = fastdist.full((2,), 7.0, dtype=x.dtype)
    assert x.grad.tolist() == [7.0, 7.0]
    x.requires_grad_(True)
    assert x.grad.tolist() == [7.0, 7.0]


def test_a_level_says_whose_it_is() -> None:
    level = ForwardADLevel.get_by_idx(ForwardADLevel.get_next_idx())
    mirror = ForwardADLevel.get_or_create_mirror(77)
    try:
        assert repr(level) == "<forward AD level 0>"
        assert repr(mirror) == "<mirror of forward AD level 77>"
    finally:
        ForwardADLevel.release_mirror(77)
        ForwardADLevel.release_idx(0)


# ---- hooks on saved tensors ---------------------------------------------------------------------


def test_the_innermost_hooks_take_what_is_saved() -> None:
    taken: list[str] = []

    def hooks(name: str) -> Any:
        def pack(tensor: Tensor) -> Tensor:
            taken.append(name)
            return tensor

        return saved_tensors_hooks(pack, lambda tensor: tensor)

    x = leaf()
    with hooks("outer"):
        with hooks("inner"):
            y = x.exp()
        z = x.exp()
    (y + z).sum().backward()
    assert taken == ["inner", "outer"]


def test_hooks_that_are_disabled_are_so_until_the_outermost_block_ends() -> None:
    def enter() -> None:
        with saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor):
            leaf().exp()

    with disable_saved_tensors_hooks("outer"):
        with disable_saved_tensors_hooks("inner"), pytest.raises(RuntimeError, match="inner"):
            enter()
        with pytest.raises(RuntimeError, match="outer"):
            enter()
    enter()


def test_a_level_without_tangents_is_a_level_all_the_same() -> None:
    level = ForwardADLevel.get_by_idx(ForwardADLevel.get_next_idx())
    try:
        assert len(level) == 0 and bool(level)
    finally:
        ForwardADLevel.release_idx(0)

"""Claims about containers that are taken apart and put together again."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import Any, NamedTuple

import pytest

import fastdist as fd
from fastdist.tensor import pytree as _pytree
from fastdist.utils import _pytree as pytree


class Point(NamedTuple):
    """A tuple with names."""

    x: Any
    y: Any


TREES: list[Any] = [
    3,
    None,
    [],
    (1, [2, {"b": 3, "a": None}], Point(4, (5,))),
    OrderedDict(z=1, y=[2]),
    defaultdict(list, {"k": 1}),
    deque([1, 2], maxlen=3),
    fd.Size([2, 3]),
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_tree_unflatten_gives_back_what_tree_flatten_took_apart(tree: Any) -> None:
    rebuilt = pytree.tree_unflatten(*pytree.tree_flatten(tree))
    assert (rebuilt, type(rebuilt)) == (tree, type(tree))


def test_leaves_come_from_left_to_right_in_the_order_in_which_keys_were_put() -> None:
    assert pytree.tree_leaves({"b": 1, "a": (2, [3, None])}) == [1, 2, 3, None]


def test_a_leaf_is_what_no_container_is_known_for_or_is_leaf_says() -> None:
    class Own(list[int]):
        """A subclass, which is no list here."""

    tree = [Own([1]), (2, 3)]
    assert pytree.tree_leaves(tree, lambda t: isinstance(t, tuple)) == [[1], (2, 3)]


def test_what_functions_return_is_mapped_over_with_its_names() -> None:
    doubled = pytree.tree_map(lambda t: t * 2, fd.tensor([1.0, 3.0]).max(0))
    assert (doubled.values.item(), doubled.indices.item()) == (6.0, 2)


def test_tree_map_walks_trees_side_by_side_by_their_keys() -> None:
    pairs = pytree.tree_map(lambda a, b: (a, b), {"a": 1, "c": 2}, {"c": (3, 4), "a": 5})
    assert pairs == {"a": (1, 5), "c": (2, (3, 4))}


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ([1, 2], [1], "arity"),
        ([1, 2], (1, 2), "type"),
        ({"a": 1}, {"b": 1}, "keys"),
        (deque([1], maxlen=2), deque([1], maxlen=3), "context"),
    ],
)
def test_tree_map_refuses_trees_of_two_shapes(one: Any, other: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"Node {words} mismatch"):
        pytree.tree_map(lambda a, b: a, one, other)


def test_tree_map_only_changes_leaves_of_a_class_or_of_a_predicate() -> None:
    tree = [1, "two", (3.0,)]
    by_class = pytree.tree_map_only(int, lambda n: n + 1, tree)
    by_predicate = pytree.tree_map_only(lambda leaf: leaf == "two", str.upper, tree)
    assert (by_class, by_predicate) == ([2, "two", (3.0,)], [1, "TWO", (3.0,)])


def test_in_place_forms_return_the_tree_itself() -> None:
    tree, seen = [1, "two"], []
    assert pytree.tree_map_(seen.append, tree) is tree
    assert pytree.tree_map_only_(int, seen.append, tree) is tree
    assert seen == [1, "two", 1]


def test_questions_are_asked_of_all_leaves_or_those_of_a_class() -> None:
    tree = [1, (2, "x")]
    assert [
        pytree.tree_all(bool, tree),
        pytree.tree_any(lambda leaf: leaf == 3, tree),
        pytree.tree_all_only(int, lambda n: n < 3, tree),
        pytree.tree_any_only(int, lambda n: n > 2, tree),
    ] == [True, False, True, False]


def test_specs_are_equal_where_trees_differ_in_leaves_alone() -> None:
    spec = pytree.tree_structure({"a": [1, 2]})
    assert spec == pytree.tree_structure({"a": [3, None]})
    assert spec != pytree.tree_structure({"a": (1, 2)})
    assert (hash(spec), spec.num_leaves) == (hash(pytree.tree_structure({"a": [3, 4]})), 2)


def test_tree_unflatten_refuses_another_number_of_leaves_and_what_is_no_spec() -> None:
    with pytest.raises(ValueError, match="has length 1 but the spec refers to a pytree that holds"):
        pytree.tree_unflatten([1], pytree.tree_structure([1, 2]))
    with pytest.raises(TypeError, match="expected `treespec` to be instance of TreeSpec"):
        pytree.tree_unflatten([1], [1])  # type: ignore[arg-type]


def test_a_class_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pair:
        """Two parts."""

        def __init__(self, one: Any, two: Any) -> None:
            self.parts = [one, two]

    monkeypatch.setattr(_pytree, "_containers", dict(_pytree._containers))
    register = lambda: pytree.register_pytree_node(  # noqa: E731
        Pair, lambda pair: (pair.parts, None), lambda parts, _: Pair(*parts)
    )
    register()
    assert pytree.tree_map(lambda n: -n, Pair(1, [2])).parts == [-1, [-2]]
    with pytest.raises(ValueError, match="already registered as pytree node"):
        register()

"""Pytrees: containers are flattened into their leaves, and rebuilt."""

from __future__ import annotations

import importlib
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

import fastdist as fd
from fastdist.tensor import pytree as _pytree
from fastdist.utils import _pytree as pytree


class Point(NamedTuple):
    """A named tuple, whose type must be kept."""

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
        """A subclass of list, which pytrees treat as a leaf."""

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
        """A class with two parts, which is registered as a container."""

        def __init__(self, one: Any, two: Any) -> None:
            self.parts = [one, two]

    monkeypatch.setattr(_pytree, "SUPPORTED_NODES", dict(_pytree.SUPPORTED_NODES))
    register = lambda: pytree.register_pytree_node(  # noqa: E731
        Pair, lambda pair: (pair.parts, None), lambda parts, _: Pair(*parts)
    )
    register()
    assert pytree.tree_map(lambda n: -n, Pair(1, [2])).parts == [-1, [-2]]
    with pytest.raises(ValueError, match="already registered as pytree node"):
        register()


def test_paths_lead_to_leaves_and_back() -> None:
    tree = {"a": [1, Point(2, (3,))], "b": deque([4])}
    found, spec = pytree.tree_flatten_with_path(tree)
    texts = [pytree.keystr(path) for path, _ in found]
    assert texts == ["['a'][0]", "['a'][1].x", "['a'][1].y[0]", "['b'][0]"]
    assert all(pytree.key_get(tree, path) == leaf for path, leaf in found)
    assert spec == pytree.tree_structure(tree)
    doubled = pytree.tree_map_with_path(lambda path, x, y: (len(path), x + y), tree, tree)
    assert doubled == {"a": [(2, 2), Point((3, 4), ((4, 6),))], "b": deque([(2, 8)])}


def test_a_class_without_keys_has_no_paths(registry: None) -> None:
    class Box:
        pass

    pytree.register_pytree_node(Box, lambda box: ([1], None), lambda parts, _: Box())
    with pytest.raises(ValueError, match="Did not find a flatten_with_keys_fn"):
        pytree.tree_leaves_with_path(Box())


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastdist.utils import _pytree_files as files

    monkeypatch.setattr(_pytree, "SUPPORTED_NODES", dict(_pytree.SUPPORTED_NODES))
    for name in ("SUPPORTED_SERIALIZED_TYPES", "SERIALIZED_TYPE_TO_PYTHON_TYPE"):
        monkeypatch.setattr(files, name, dict(getattr(files, name)))
    monkeypatch.setattr(files, "CONSTANT_NODES", set())


def test_a_dataclass_is_a_container_of_its_fields(registry: None) -> None:
    @dataclass
    class Pair:
        left: Any
        right: Any = None

    pytree.register_dataclass(Pair, serialized_type_name="Pair")
    leaves, spec = pytree.tree_flatten([Pair(1), Pair(2, 3)])
    assert leaves == [1, 2, 3]
    assert pytree.tree_unflatten(leaves, spec) == [Pair(1), Pair(2, 3)]
    assert pytree.keystr(pytree.tree_leaves_with_path(Pair(1))[0][0]) == ".left"
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    pytree._deregister_pytree_node(Pair)
    with pytest.raises(ValueError, match="Missing fields"):
        pytree.register_dataclass(Pair, field_names=["left"])


def test_a_constant_is_a_part_of_the_spec(registry: None) -> None:
    @dataclass(frozen=True)
    class Mode:
        name: str

    class Plain:
        pass

    pytree.register_constant(Mode)
    leaves, spec = pytree.tree_flatten((Mode("x"), 1))
    assert (leaves, pytree.tree_unflatten([2], spec)) == ([1], (Mode("x"), 2))
    assert spec != pytree.tree_structure((Mode("y"), 1))
    with pytest.raises(TypeError, match="__eq__"):
        pytree.register_constant(Plain)


def test_an_older_registration_warns_and_may_come_again(registry: None) -> None:
    class Bag(list):  # type: ignore[type-arg]
        pass

    for _ in range(2):
        with pytest.warns((FutureWarning, UserWarning)):
            pytree._register_pytree_node(
                Bag, pytree._list_flatten, lambda parts, _: Bag(parts), serialized_type_name="Bag"
            )
    assert pytree.tree_leaves(Bag([1, 2])) == [1, 2]


SPEC = {"a": [1, (2, None)], "o": OrderedDict(x=1), "d": defaultdict(int, {1: 2}), "q": deque([1])}
TEXT = (
    '[1, {"type": "builtins.dict", "context": "[\\"a\\", \\"q\\"]", "children_spec": [{"type": '
    '"builtins.list", "context": "null", "children_spec": [{"type": null, "context": null, '
    '"children_spec": []}]}, {"type": "collections.deque", "context": "3", "children_spec": '
    '[{"type": null, "context": null, "children_spec": []}]}]}]'
)


def test_a_spec_is_text_and_back() -> None:
    spec = pytree.tree_structure(SPEC)
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    assert pytree.treespec_dumps(pytree.tree_structure({"a": [1], "q": deque([1], 3)})) == TEXT
    with pytest.raises(ValueError, match="Unknown protocol 2"):
        pytree.treespec_dumps(spec, 2)
    with pytest.raises(NotImplementedError, match="_register_namedtuple"):
        pytree.treespec_dumps(pytree.tree_structure(Point(1, 2)))


def test_a_named_tuple_with_a_name_in_files_is_text_and_back(registry: None) -> None:
    pytree._register_namedtuple(Point, serialized_type_name="Point")
    spec = pytree.tree_structure([Point(1, 2)])
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec


def test_specs_are_built_and_shown() -> None:
    leaf = pytree.treespec_leaf()
    built = pytree.treespec_dict({"a": pytree.treespec_tuple([leaf, leaf])}, b=leaf)
    assert built == pytree.tree_structure({"a": (1, 2), "b": 3})
    assert pytree.treespec_pprint(built) == "{'a': (*, *), 'b': *}"
    assert (built.num_nodes, built.child(0).num_leaves, len(built.children())) == (5, 2, 2)


def test_functions_of_one_class_and_helpers_have_their_private_names() -> None:
    assert pytree._dict_flatten({"a": 1}) == ([1], ["a"])
    assert pytree._dict_unflatten([1], ["a"]) == {"a": 1}
    assert pytree._get_node_type(Point(1, 2)) in pytree.SUPPORTED_NODES
    assert pytree.arg_tree_leaves([1], x=(2,)) == [1, 2]
    assert pytree.map_only(int)(lambda x: -x)(3) == -3
    assert pytree.is_namedtuple(Point) and pytree.is_namedtuple_instance(Point(1, 2))
    assert pytree._broadcast_to_and_flatten([1, 2], pytree.tree_structure([(0, 0), 0])) == [1, 1, 2]
    assert pytree._broadcast_to_and_flatten([1], pytree.tree_structure([0, 0])) is None
    with pytest.raises(ImportError, match="optree"):
        importlib.import_module("fastdist.utils._cxx_pytree")

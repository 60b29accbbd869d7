"""The keys of a container's children, and the key paths to leaves."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..tensor import pytree
from ..tensor.layout import Size
from ..tensor.pytree import NAMED, Context, IsLeaf, PyTree, TreeSpec, tree_structure


class KeyEntry(Protocol):
    """One step from a container to a child."""

    def __hash__(self) -> int: ...

    def __eq__(self, other: object) -> bool: ...

    def get(self, parent: Any) -> Any:
        """Return the child of `parent` at this key."""


KeyPath = tuple[KeyEntry, ...]


@dataclass(frozen=True, slots=True)
class MappingKey:
    """The key of an entry of a mapping; `str` returns [key]."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Mapping[Any, Any]) -> Any:
        """Return the entry of `mapping` at this key."""
        return mapping[self.key]


@dataclass(frozen=True, slots=True)
class SequenceKey:
    """The index of an element of a sequence; `str` returns [index]."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Sequence[Any]) -> Any:
        """Return the element of `sequence` at this index."""
        return sequence[self.idx]


@dataclass(frozen=True, slots=True)
class GetAttrKey:
    """The name of an attribute; `str` returns .name."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """Return the attribute of `obj` with this name."""
        return getattr(obj, self.name)


Keyed = tuple[list[tuple[Any, Any]], Context]


def _list_flatten_with_keys(d: Sequence[Any]) -> Keyed:
    parts, context = _flatten(d)
    return [(SequenceKey(place), part) for place, part in enumerate(parts)], context


_tuple_flatten_with_keys = _deque_flatten_with_keys = _list_flatten_with_keys


def _dict_flatten_with_keys(d: Mapping[Any, Any]) -> Keyed:
    parts, context = _flatten(d)
    return [(MappingKey(key), part) for key, part in zip(d, parts, strict=True)], context


_ordereddict_flatten_with_keys = _defaultdict_flatten_with_keys = _dict_flatten_with_keys


def _namedtuple_flatten_with_keys(d: Any) -> Keyed:
    parts, context = pytree.SUPPORTED_NODES[NAMED].flatten_fn(d)
    pairs = zip(d._fields, parts, strict=True)
    return [(GetAttrKey(name), part) for name, part in pairs], context


def _flatten(d: Any) -> tuple[Iterable[Any], Context]:
    return pytree.SUPPORTED_NODES[type(d)].flatten_fn(d)


_WITH_KEYS: dict[Any, Callable[[Any], Keyed]] = {
    tuple: _list_flatten_with_keys,
    Size: _list_flatten_with_keys,
    list: _list_flatten_with_keys,
    deque: _list_flatten_with_keys,
    dict: _dict_flatten_with_keys,
    OrderedDict: _dict_flatten_with_keys,
    defaultdict: _dict_flatten_with_keys,
    NAMED: _namedtuple_flatten_with_keys,
}
for _kind, _function in _WITH_KEYS.items():
    pytree.SUPPORTED_NODES[_kind] = pytree.SUPPORTED_NODES[_kind]._replace(
        flatten_with_keys_fn=_function
    )


def _get_node_type(tree: Any) -> Any:
    """Return the class of a tree, or NAMED for a namedtuple whose class is not registered."""
    kind = type(tree)
    if kind not in pytree.SUPPORTED_NODES and isinstance(tree, tuple) and hasattr(kind, "_fields"):
        return NAMED
    return kind


def _generate_key_paths(
    key_path: KeyPath, tree: PyTree, is_leaf: IsLeaf = None
) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the path and the value of each leaf, from left to right."""
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(tree)
    if node is None:
        yield key_path, tree
        return
    if node.flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {node.type}. Please pass a "
            "flatten_with_keys_fn argument to register_pytree_node."
        )
    for key, part in node.flatten_with_keys_fn(tree)[0]:
        yield from _generate_key_paths((*key_path, key), part, is_leaf)


def _node_of(tree: PyTree) -> Any:
    return pytree.SUPPORTED_NODES.get(_get_node_type(tree))


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Return the path and the value of each leaf, from left to right.

    Raises  ValueError for a registered class without a flatten_with_keys_fn

    Example:
        >>> [(keystr(path), leaf) for path, leaf in tree_leaves_with_path({"a": [1, 2]})]
        [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return list(_generate_key_paths((), tree, is_leaf))


def tree_flatten_with_path(
    tree: PyTree, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Return the key path and the value of each leaf, and the spec of the tree."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Return a tree whose leaves are func(path, leaf, *values of the other trees at that path)."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [[path for path, _ in found], [leaf for _, leaf in found]]
    columns += [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(*row) for row in zip(*columns, strict=True)])


def keystr(kp: KeyPath) -> str:
    """Return the text of a key path, such as ['a'][0].name."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """Return the part of an object at a key path."""
    for key in kp:
        obj = key.get(obj)
    return obj

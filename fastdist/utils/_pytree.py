"""Pytrees, containers as trees: `torch.utils._pytree`.

tensor/pytree.py has the functions for trees and specs. _pytree_keys.py has key paths.
_pytree_files.py has the registration of classes, and specs as text.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

from ..core.missing import find_late
from ..tensor import pytree as _trees
from ..tensor.pytree import (
    NAMED,
    Context,
    LeafSpec,
    NodeDef,
    PyTree,
    TreeSpec,
    tree_all,
    tree_all_only,
    tree_any,
    tree_any_only,
    tree_flatten,
    tree_is_leaf,
    tree_iter,
    tree_leaves,
    tree_map,
    tree_map_,
    tree_map_only,
    tree_map_only_,
    tree_structure,
    tree_unflatten,
)
from . import _pytree_files, _pytree_keys
from ._pytree_files import (
    _private_register_pytree_node,  # noqa: F401 (packages import it)
    register_constant,
    register_dataclass,
    register_pytree_node,
    treespec_dumps,
    treespec_loads,
)
from ._pytree_keys import (
    GetAttrKey,
    KeyEntry,
    KeyPath,
    MappingKey,
    SequenceKey,
    key_get,
    keystr,
    tree_flatten_with_path,
    tree_leaves_with_path,
    tree_map_with_path,
)

__all__ = [
    "Context", "GetAttrKey", "KeyEntry", "KeyPath", "LeafSpec", "MappingKey", "NodeDef", "PyTree",
    "SequenceKey", "TreeSpec", "arg_tree_leaves", "is_namedtuple", "is_namedtuple_class",
    "is_namedtuple_instance", "key_get", "keystr", "map_only", "register_constant",
    "register_dataclass", "register_pytree_node", "tree_all", "tree_all_only", "tree_any",
    "tree_any_only", "tree_flatten", "tree_flatten_with_path", "tree_is_leaf", "tree_iter",
    "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_", "tree_map_only",
    "tree_map_only_", "tree_map_with_path", "tree_structure", "tree_unflatten", "treespec_dict",
    "treespec_dumps", "treespec_leaf", "treespec_loads", "treespec_pprint", "treespec_tuple",
]  # fmt: skip

PyTreeSpec = TreeSpec
STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})
BUILTIN_TYPES = frozenset({tuple, list, deque, NAMED, *STANDARD_DICT_TYPES})
# Types for annotations.
FlattenFunc = Callable[[Any], tuple[list[Any], Any]]
UnflattenFunc = Callable[[Iterable[Any], Any], Any]
FlattenWithKeysFunc = Callable[[Any], tuple[list[tuple[Any, Any]], Any]]
FlattenFn, UnflattenFn, FlattenWithKeysFn = FlattenFunc, UnflattenFunc, FlattenWithKeysFunc
DumpableContext = Any
ToDumpableContextFn = FromDumpableContextFn = Callable[[Any], Any]

_FLATTEN = {
    "list": list, "tuple": tuple, "dict": dict, "odict": OrderedDict, "ordereddict": OrderedDict,
    "defaultdict": defaultdict, "deque": deque, "namedtuple": NAMED,
}  # fmt: skip


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """Return the leaves of all arguments, from left to right."""
    return [leaf for tree in (*args, *kwargs.values()) for leaf in tree_iter(tree)]


def map_only(
    type_or_types_or_pred: Any, /
) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Return a decorator that applies a function only to values that are instances of a class or
    satisfy a predicate. Other values are returned unchanged.
    """
    chosen = _trees._predicate(type_or_types_or_pred)

    def decorate(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: function(value) if chosen(value) else value

    return decorate


def is_namedtuple_class(cls: Any) -> bool:
    """Return whether a class is a namedtuple class."""
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(fields, tuple)
        and all(isinstance(name, str) for name in fields)
    )


def is_namedtuple(obj: Any) -> bool:
    """Return whether an object is a namedtuple, or a namedtuple class."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_instance(obj: Any) -> bool:
    """Return whether an object is a namedtuple."""
    return is_namedtuple_class(type(obj))


_is_namedtuple_instance = is_namedtuple_instance


def treespec_leaf() -> TreeSpec:
    """Return the spec of a leaf."""
    return LeafSpec()


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """Return the spec of a tuple of trees."""
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """Return the spec of a dict of trees."""
    entries = dict(mapping, **kwargs)
    return TreeSpec(dict, list(entries), list(entries.values()))


class _Asterisk:
    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """Return the text of a tree with the given spec and * as each leaf."""
    return repr(treespec.unflatten([_Asterisk()] * treespec.num_leaves))


def _is_leaf(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    return tree_is_leaf(tree, is_leaf)


def _broadcast_to_and_flatten(
    tree: PyTree, treespec: TreeSpec, is_leaf: Callable[[Any], bool] | None = None
) -> list[Any] | None:
    """Broadcast a tree to a spec: where the spec has a subtree in the position of a leaf of `tree`,
    repeat the leaf for each leaf of the subtree. Return the list of these leaves, or None if `tree`
    is not a prefix of the spec.
    """
    found: list[Any] = []

    def repeat(leaf: Any, below: PyTree) -> None:
        found.extend([leaf] * tree_structure(below, is_leaf).num_leaves)

    try:
        tree_map_(repeat, tree, treespec.unflatten([0] * treespec.num_leaves), is_leaf=is_leaf)
    except ValueError:
        return None
    return found


def __getattr__(name: str) -> Any:
    """Return the table of registered classes, or a function of a registered class, such as
    _dict_flatten.
    """
    if name == "SUPPORTED_NODES":
        return _trees.SUPPORTED_NODES
    kind, _, what = name.removeprefix("_").partition("_")
    if kind in _FLATTEN and what in ("flatten", "unflatten"):
        return getattr(_trees.SUPPORTED_NODES[_FLATTEN[kind]], f"{what}_fn")
    for home in (_pytree_keys, _pytree_files):
        if name in vars(home):
            return vars(home)[name]
    return find_late(__name__, name)

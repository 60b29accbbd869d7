"""Containers as trees: flattened into leaves and a spec, mapped over, and rebuilt."""

# A tree is a leaf, or a container whose entries are trees. A leaf is any object that is not a
# registered container; None is a leaf. A spec describes the structure of a tree without the leaves.
# If the specs of two trees are equal, each leaf of one tree corresponds to a leaf of the other.

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from .layout import Size

PyTree = Any
Context = Any
IsLeaf = Callable[[PyTree], bool] | None
Kind = type | tuple[type, ...]

# The key of all named tuples in SUPPORTED_NODES: PyTorch uses the function namedtuple, not a class.
NAMED: Any = namedtuple  # noqa: PYI024


class NodeDef(NamedTuple):
    """How containers of one class are flattened and rebuilt."""

    type: Any
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Context]]
    unflatten_fn: Callable[[Iterable[Any], Context], Any]
    # Maps a container to a list of (key of an entry, entry) pairs, and the context.
    flatten_with_keys_fn: Callable[[Any], tuple[Iterable[Any], Context]] | None = None


SUPPORTED_NODES: dict[Any, NodeDef] = {
    node.type: node
    for node in (
        NodeDef(tuple, lambda t: (list(t), None), lambda parts, _: tuple(parts)),
        NodeDef(Size, lambda t: (list(t), None), lambda parts, _: Size(parts)),
        NodeDef(list, lambda t: (t, None), lambda parts, _: list(parts)),
        NodeDef(
            dict,
            lambda t: (list(t.values()), list(t)),
            lambda parts, keys: dict(zip(keys, parts, strict=True)),
        ),
        NodeDef(
            OrderedDict,
            lambda t: (list(t.values()), list(t)),
            lambda parts, keys: OrderedDict(zip(keys, parts, strict=True)),
        ),
        NodeDef(
            defaultdict,
            lambda t: (list(t.values()), [t.default_factory, list(t)]),
            lambda parts, made: defaultdict(made[0], zip(made[1], parts, strict=True)),
        ),
        NodeDef(
            deque,
            lambda t: (list(t), t.maxlen),
            lambda parts, maxlen: deque(parts, maxlen=maxlen),
        ),
        # Named tuples: the class itself is the context.
        NodeDef(NAMED, lambda t: (list(t), type(t)), lambda parts, made: made(*parts)),
    )
}


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Context]],
    unflatten_fn: Callable[[Iterable[Any], Context], Any],
    *,
    flatten_with_keys_fn: Callable[[Any], tuple[Iterable[Any], Context]] | None = None,
    **kwargs: Any,
) -> None:
    """Register a container class. flatten_fn returns the entries of a container, and a context.
    unflatten_fn rebuilds the container from these. flatten_with_keys_fn returns pairs (key, entry)
    instead of entries.

    Raises  ValueError for a class that is registered already
    Note    `kwargs` are ignored; utils._pytree.register_pytree_node has keywords for saving specs
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


class TreeSpec:
    """The structure of a tree: the class, the context and the entries' specs of its root."""

    __slots__ = ("children_specs", "context", "num_leaves", "type")

    def __init__(self, type: Any, context: Context, children_specs: list[TreeSpec]) -> None:
        self.type = type
        self.context = context
        self.children_specs = children_specs
        self.num_leaves: int = sum(spec.num_leaves for spec in children_specs)

    @property
    def num_children(self) -> int:
        """The number of entries of the root."""
        return len(self.children_specs)

    @property
    def num_nodes(self) -> int:
        """The number of containers and leaves."""
        return 1 + sum(spec.num_nodes for spec in self.children_specs)

    def children(self) -> list[TreeSpec]:
        """Return the specs of the root's entries."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """Return the spec of one entry of the root."""
        return self.children_specs[index]

    def is_leaf(self) -> bool:
        """Return whether the tree consists of a single leaf."""
        return isinstance(self, LeafSpec)

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """Return a tree of this structure with the given leaves.

        Raises  ValueError if the number of leaves is wrong
        """
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec "
                f"refers to a pytree that holds {self.num_leaves} items ({self})."
            )
        return self._grow(iter(leaves))

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """Return the subtrees of `tree` that are in the positions of this spec's leaves.

        Raises  ValueError if `tree` has another container in the position of one of this spec
        """
        if self.is_leaf():
            return [tree]
        if _kind(tree) is not self.type:
            raise ValueError(f"Node type mismatch; expected {self.type}, but got {type(tree)}.")
        parts, context = _apart(tree) or ([], None)
        if len(parts) != self.num_children:
            raise ValueError(
                f"Node arity mismatch; expected {self.num_children}, but got {len(parts)}."
            )
        if isinstance(tree, dict):
            # Entries are matched by key: two equal dictionaries may differ in order.
            keys = self.context[1] if self.type is defaultdict else self.context
            if set(keys) != set(tree):
                raise ValueError(f"Node keys mismatch; expected {keys}, but got {list(tree)}.")
            parts = [tree[key] for key in keys]
        elif context != self.context:
            raise ValueError(
                f"Node context mismatch for {self.type}; expected {self.context}, got {context}."
            )
        below = zip(self.children_specs, parts, strict=True)
        return [leaf for spec, part in below for leaf in spec.flatten_up_to(part)]

    def _grow(self, leaves: Iterator[Any]) -> PyTree:
        parts = [spec._grow(leaves) for spec in self.children_specs]
        return _how(self.type).unflatten_fn(parts, self.context)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TreeSpec)
            and self.type is other.type
            and self.context == other.context
            and self.children_specs == other.children_specs
        )

    def __hash__(self) -> int:
        return hash((self.type, self.num_leaves, *self.children_specs))

    def __repr__(self) -> str:
        return f"TreeSpec({self.type.__name__}, {self.context}, {self.children_specs})"


class LeafSpec(TreeSpec):
    """The spec of a leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])
        self.num_leaves = 1

    def _grow(self, leaves: Iterator[Any]) -> PyTree:
        return next(leaves)

    def __repr__(self) -> str:
        return "*"


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Return whether `tree` is a leaf. Containers for which `is_leaf` is true are leaves too."""
    return (is_leaf is not None and is_leaf(tree)) or _kind(tree) is None


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of a tree, from left to right, and its spec."""
    leaves: list[Any] = []
    return leaves, _collect(tree, is_leaf, leaves)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """Return the tree with these leaves and this spec.

    Raises  TypeError for an object that is not a TreeSpec, ValueError for a wrong number of leaves
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "tree_unflatten(leaves, treespec): expected `treespec` to be instance of TreeSpec but "
            f"got item of type {type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """Yield the leaves of a tree, from left to right."""
    parts = None if is_leaf is not None and is_leaf(tree) else _apart(tree)
    if parts is None:
        yield tree
        return
    for part in parts[0]:
        yield from tree_iter(part, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """Return the leaves of a tree, from left to right."""
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """Return the spec of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Call `func` with each leaf of `tree` and the values in the same position of `rests`. Return a
    tree of the results.

    Raises  ValueError if one of `rests` does not have the structure of `tree`
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *(spec.flatten_up_to(rest) for rest in rests)))


def tree_map_(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Call `func` with each leaf, as tree_map does, and return `tree` itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(
    type_or_types_or_pred: Kind | Callable[[Any], bool],
    /,
    func: Callable[[Any], Any],
    tree: PyTree,
    is_leaf: IsLeaf = None,
) -> PyTree:
    """Return a tree in which leaves that are instances of a class, or that satisfy a predicate, are
    replaced by results of `func`. Other leaves are unchanged.
    """
    chosen = _predicate(type_or_types_or_pred)
    return tree_map(lambda leaf: func(leaf) if chosen(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Kind | Callable[[Any], bool],
    /,
    func: Callable[[Any], Any],
    tree: PyTree,
    is_leaf: IsLeaf = None,
) -> PyTree:
    """Call `func` with the leaves that tree_map_only would replace, and return `tree` itself."""
    tree_map_only(type_or_types_or_pred, func, tree, is_leaf)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Return whether `pred` is true for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Return whether `pred` is true for any leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Kind, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Return whether `pred` is true for all leaves that are instances of a class."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: Kind, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Return whether `pred` is true for any leaf that is an instance of a class."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def _kind(tree: PyTree) -> type | None:
    """Return the class under which a container is registered; None for a leaf."""
    kind = type(tree)
    if kind in SUPPORTED_NODES:
        return kind
    # An instance of a container's subclass is a leaf, except for named tuples.
    return kind if isinstance(tree, tuple) and hasattr(kind, "_fields") else None


def _how(kind: type) -> NodeDef:
    return SUPPORTED_NODES.get(kind) or SUPPORTED_NODES[NAMED]


def _apart(tree: PyTree) -> tuple[list[Any], Context] | None:
    kind = _kind(tree)
    if kind is None:
        return None
    parts, context = _how(kind).flatten_fn(tree)
    return list(parts), context


def _collect(tree: PyTree, is_leaf: IsLeaf, leaves: list[Any]) -> TreeSpec:
    """Append the leaves of a tree to `leaves`, and return the tree's spec."""
    parts = None if is_leaf is not None and is_leaf(tree) else _apart(tree)
    if parts is None:
        leaves.append(tree)
        return LeafSpec()
    return TreeSpec(type(tree), parts[1], [_collect(part, is_leaf, leaves) for part in parts[0]])


def _predicate(chosen: Kind | Callable[[Any], bool]) -> Callable[[Any], bool]:
    if isinstance(chosen, (type, tuple)):
        kinds = chosen
        return lambda leaf: isinstance(leaf, kinds)
    return chosen

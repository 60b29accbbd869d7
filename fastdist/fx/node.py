"""One step of a graph: an input, a parameter, a call, or the result."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..core.missing import explain_missing
from .immutable_collections import immutable_dict, immutable_list
from .names import name_of

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

# Types for annotations.
Target = Any
Argument = Any
_OPERATIONS = (
    "placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root",
)  # fmt: skip
_side_effects: set[Any] = set()


def has_side_effect(fn: Any) -> Any:
    """Mark a function as having side effects: its calls are never removed. Return the function."""
    _side_effects.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Return a tree of tuples, lists, dicts and slices with fn applied to each leaf."""
    if isinstance(a, tuple):
        parts = [map_aggregate(one, fn) for one in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return immutable_list([map_aggregate(one, fn) for one in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(one, fn) for key, one in a.items()})
    if isinstance(a, slice):
        ends = [map_aggregate(one, fn) for one in (a.start, a.stop, a.step)]
        return slice(*ends)
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Return a tree of arguments with each Node replaced by fn(node)."""
    return map_aggregate(a, lambda one: fn(one) if isinstance(one, Node) else one)


class Node:
    """One step of a Graph.

    `op` is "placeholder" (an input of the function), "get_attr" (a parameter or buffer of the
    module), "call_function", "call_method", "call_module" or "output". `target` is the function,
    the name of the method, or the path of the module or tensor. `args` and `kwargs` may hold Nodes.
    `users` are the Nodes that read the result; `meta` is a dict for passes.
    """

    def __init__(
        self,
        graph: Any,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: Mapping[str, Argument],
        return_type: Any = None,
    ) -> None:
        if op not in _OPERATIONS:
            raise AssertionError(f"op is one of {', '.join(_OPERATIONS)}, got {op!r}")
        if op == "call_function" and not callable(target):
            raise ValueError(f"the target of call_function is a function, got {target!r}")
        if op != "call_function" and not isinstance(target, str):
            raise ValueError(f"the target of {op} is a string, got {target!r}")
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased = False
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = {}
        self._set_arguments(args, kwargs)

    @property
    def next(self) -> Node:
        """The next step of the graph; after the last one, the graph's root."""
        return self._next

    @property
    def prev(self) -> Node:
        """The previous step; before the first one, the graph's root."""
        return self._prev

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments. Setting `args` updates `users` of each Node among them."""
        return self._args

    @args.setter
    def args(self, given: Iterable[Argument]) -> None:
        self._set_arguments(tuple(given), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The named arguments. Setting `kwargs` updates `users` of each Node among them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, given: Mapping[str, Argument]) -> None:
        self._set_arguments(self._args, given)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The distinct Nodes among the arguments, in order."""
        return list(self._input_nodes)

    @property
    def stack_trace(self) -> str | None:
        """The stack trace of the program at this step, if recorded."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def _set_arguments(self, args: tuple[Argument, ...], kwargs: Mapping[str, Argument]) -> None:
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._input_nodes = {}

        def used(node: Node) -> Node:
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args = map_arg(tuple(args), used)
        self._kwargs = map_arg(dict(kwargs), used)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace a positional argument."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument before index idx.

        Raises  AssertionError for an index outside of 0 to len(args)
        """
        if not 0 <= idx <= len(self._args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Replace a named argument."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Replace old_input by new_input in the arguments."""

        def chosen(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set_arguments(map_arg(self._args, chosen), map_arg(self._kwargs, chosen))

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Make all users of this Node use another Node; return the changed users.

        Args:
            replace_with: The Node to use instead.
            delete_user_cb: Returns whether to change a given user; all are changed if it is None.
            propagate_meta: Whether to copy this Node's meta to replace_with, whose meta must be
                empty.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError("propagate_meta: replace_with already has meta")
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def prepend(self, x: Node) -> None:
        """Move a Node of the same graph before this one."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move a Node of the same graph after this one."""
        self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the step has side effects, so that it must not be removed."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _side_effects or str(self.target.__name__).endswith("_assert")
        return self.op == "call_method" and self.target.endswith("_") and self.target[:2] != "__"

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
    ) -> str | None:
        """Return the step as a line of text."""
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(self.target)
                return None
            default = f"(default={self._args[0]})" if self._args else ""
            return f"{self._head()}placeholder[target={self.target}]{default}"
        name = self._pretty_target()
        if self.op == "get_attr":
            return f"{self._head()}get_attr[target={name}]"
        if self.op == "output":
            return f"return {self._args[0]}"
        listed = f"(args = {_formatted(self._args)}, kwargs = {_formatted(self._kwargs)})"
        return f"{self._head()}{self.op}[target={name}]{listed}"

    def _head(self) -> str:
        return f"%{self.name} : [num_users={len(self.users)}] = "

    def _pretty_target(self) -> str:
        return self.target if isinstance(self.target, str) else name_of(self.target)

    def __repr__(self) -> str:
        return self.name

    def __lt__(self, other: Node) -> bool:
        return self._place() < other._place()

    def __gt__(self, other: Node) -> bool:
        return self._place() > other._place()

    def _place(self) -> int:
        return next(place for place, node in enumerate(self.graph.nodes) if node is self)


def _formatted(given: Any) -> str:
    if isinstance(given, Node):
        return f"%{given.name}"
    if isinstance(given, tuple):
        return f"({', '.join(map(_formatted, given))}{',' if len(given) == 1 else ''})"
    if isinstance(given, list):
        return f"[{', '.join(map(_formatted, given))}]"
    if isinstance(given, dict):
        return f"{{{', '.join(f'{key}: {_formatted(one)}' for key, one in given.items())}}}"
    return str(given) if isinstance(given, builtins.str) else repr(given)


def walk(root: Node, *, backward: bool = False) -> Iterator[Node]:
    """Yield the Nodes of a graph in order. The caller may erase a Node after it is yielded."""
    node = root._prev if backward else root._next
    while node is not root:
        if not node._erased:
            yield node
        node = node._prev if backward else node._next


explain_missing(__name__)

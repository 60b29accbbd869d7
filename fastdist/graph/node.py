"""One recorded operation, and the edges along which gradients flow back."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from ..core.errors import GraphError, VersionError
from ..system.forked_locks import renew_in_children
from ..tensor.layout import Layout
from ..tensor.tensor import Tensor

# Unique and increasing: later Nodes have higher numbers, so heaps never compare two Nodes.
next_sequence_number: Callable[[], int] = itertools.count().__next__


class Hooks:
    """Hooks of one Node: on the gradients of its outputs before it runs, and on its results after
    it has run.

    Each dict is id -> function, so that removing a hook keeps the order of the others.
    """

    __slots__ = ("post", "pre", "retains", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[
            int, dict[int, Callable[..., Any]]
        ] = {}  # output_nr -> hooks of the tensor that is this output
        self.retains: dict[int, Callable[[Tensor | None], None]] = {}  # output_nr -> stores .grad
        self.pre: dict[int, Callable[..., Any]] = {}
        self.post: dict[int, Callable[..., Any]] = {}

    def __bool__(self) -> bool:
        return bool(self.tensor or self.retains or self.pre or self.post)


class RemovableHandle:
    """Removes a hook: by `remove()`, or, as a context manager, at the end of the block."""

    __slots__ = ("_hooks", "id")
    _next_id: ClassVar[Callable[[], int]] = itertools.count().__next__

    def __init__(self, hooks: dict[int, Callable[..., Any]], hook: Callable[..., Any]) -> None:
        self._hooks = hooks
        self.id = RemovableHandle._next_id()
        hooks[self.id] = hook

    def remove(self) -> None:
        """Remove the hook; a second call is harmless."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class Node:
    """An operation of the graph. `apply` computes the gradients of its inputs from its output's.

    A subclass with one output implements `apply(g)` on raw arrays and `apply_recorded(g)` on
    Tensors. With several outputs (`num_outputs > 1`) both take and return tuples, with None for
    undefined gradients.

    Note    `output_layout` is the layout of the output, or a tuple for several outputs; `fresh`
            means that apply returns new arrays, so that a gradient may be kept without a copy
    Thread  built by the recording thread; in one pass, one engine thread at a time runs it, but
            several passes may overlap
    """

    __slots__ = ("__weakref__", "_called", "edges", "hooks", "output_layout", "seq", "stream")
    is_accumulate: ClassVar[bool] = False
    fresh: ClassVar[bool] = False
    # Whether apply is called even if no output has a gradient. Other Nodes then return None for all
    # inputs.
    accepts_undefined: ClassVar[bool] = False
    # Whether apply takes sparse gradients; otherwise they are converted to dense ones.
    takes_sparse: ClassVar[bool] = False
    # Whether apply waits for its device or for other workers; if so, the device's thread must not
    # run it.
    waits: ClassVar[bool] = False
    num_outputs: int = 1
    # Guards the place where the first hook of a Node or a leaf is stored, because two threads may
    # add one. While it is held, nothing is allocated or called.
    _first_hook_lock: ClassVar[threading.Lock] = threading.Lock()
    _called: str  # only set if it differs from the class's name; only CallNodes have one
    edges: tuple[Any, ...]
    hooks: Hooks | None
    output_layout: Any
    seq: int
    stream: Any  # only set for Nodes on a device, see graph/forward_streams.py

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the inputs' gradients as raw arrays; release the saved values unless `keep` is
        set.
        """
        raise NotImplementedError(type(self).__name__)

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the inputs' gradients as Tensors, and record how they are computed."""
        raise NotImplementedError(type(self).__name__)

    def release(self) -> None:
        """Release the saved values."""

    def name(self) -> str:
        """Return the name that `grad_fn` shows."""
        return type(self.shown()).__name__

    def shown(self) -> Node:
        """Return this Node in the form that users see, see call_node.py."""
        return self

    def name_of_call(self) -> str:
        """Return the name that graphs show."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The Nodes that receive this Node's gradients, each with the index of its output."""
        return tuple((shown_node_of(edge), output_number(edge)) for edge in self.edges)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for the user's data, kept as long as this Node."""
        return _metadata.setdefault(self, {})

    def _hooks(self) -> Hooks:
        if self.hooks is None:
            made = Hooks()
            with Node._first_hook_lock:
                if self.hooks is None:
                    self.hooks = made
        return self.hooks

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(grad_inputs, grad_outputs) after this Node has run; if it returns a value, that
        replaces grad_inputs.
        """
        return RemovableHandle(self._hooks().post, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(grad_outputs) before this Node runs; a returned value replaces grad_outputs."""
        return RemovableHandle(self._hooks().pre, hook)

    def __repr__(self) -> str:
        return f"<{self.name().rpartition('::')[2]} object at {id(self):#x}>"


renew_in_children(Node, "_first_hook_lock")


class Edge:
    """One output of a Node that has several outputs."""

    __slots__ = ("node", "output_nr")
    is_accumulate = False

    def __init__(self, node: Node, output_nr: int) -> None:
        self.node = node
        self.output_nr = output_nr

    def name(self) -> str:
        """Return the Node's name."""
        return self.node.name()


def node_of(edge: Any) -> Any:
    """Return the Node (or AccumulateGrad, or None) that an edge leads to."""
    return edge.node if edge.__class__ is Edge else edge


def shown_node_of(edge: Any) -> Node | None:
    """Return the Node that an edge leads to, in the form that users see."""
    return None if edge is None else node_of(edge).shown()


def output_number(edge: Any) -> int:
    """Return the index of the Node's output that an edge refers to."""
    return edge.output_nr if edge.__class__ is Edge else 0


# The users' metadata dicts. They are not in the Nodes, because almost no Node has one; they are
# freed with their Node.
_metadata: WeakKeyDictionary[Node, dict[Any, Any]] = WeakKeyDictionary()


def raise_released(node: Node) -> Any:
    """Raise PyTorch's error for a second pass through a graph whose saved tensors were freed."""
    raise GraphError(
        "Trying to backward through the graph a second time (or directly access saved tensors "
        "after they have already "
        f"been freed): {node.name()} freed them when .backward() or autograd.grad() went through "
        "it. "
        "Specify retain_graph=True if you need to go through the graph a second time or to access "
        "saved tensors after "
        "calling backward."
    )


def raise_changed(
    node: Node, saved: Tensor | None, layout: Layout, expected: int, found: int
) -> Any:
    """Raise PyTorch's error for a saved tensor that was changed in place."""
    kind = f"[{layout.dtype.name} of shape {layout.shape}]"
    raise VersionError(
        "one of the variables needed for gradient computation has been modified by an inplace "
        "operation: "
        f"{kind}, which {node.name()} saved, is at version {found}; expected version {expected} "
        "instead. "
        "Use the out-of-place form of the operation that changed it, or change a clone()."
    )


def oldest(outputs: Iterable[tuple[Node, int]]) -> int:
    """Return the lowest sequence number among the outputs of chosen inputs; 0 if a leaf is among
    them.
    """
    return min((0 if node.is_accumulate else node.seq for node, _ in outputs), default=0)

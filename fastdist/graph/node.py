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

# Each number is unique, and later Nodes have higher numbers. So a heap of (number, Node) tuples
# never compares two Nodes.
next_sequence_number: Callable[[], int] = itertools.count().__next__


class Hooks:
    """Hooks of one Node. `tensor`, `retains` and `pre` run before the Node, on the gradients of its
    outputs. `post` runs after the Node, on its results.

    `pre`, `post` and the inner dicts of `tensor` map ids to functions. So the other hooks keep
    their order when one is removed.
    """

    __slots__ = ("post", "pre", "retains", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[
            int, dict[int, Callable[..., Any]]
        ] = {}  # index of an output -> the hooks of the tensor that is this output
        # Index of an output -> the function that stores its gradient in `.grad`.
        self.retains: dict[int, Callable[[Tensor | None], None]] = {}
        self.pre: dict[int, Callable[..., Any]] = {}
        self.post: dict[int, Callable[..., Any]] = {}

    def __bool__(self) -> bool:
        return bool(self.tensor or self.retains or self.pre or self.post)


class RemovableHandle:
    """Removes a hook: by `remove()`, or at the end of a `with` block."""

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
    """An operation of the graph. `apply` computes the gradients of the inputs from the gradient of
    the output.

    A subclass with one output implements `apply(g)` on raw arrays and `apply_recorded(g)` on
    Tensors. With several outputs (`num_outputs > 1`), g is a tuple, with None for undefined
    gradients.

    Note    `output_layout` is the layout of the output, or a tuple of layouts for several outputs;
            `fresh` means that apply returns new arrays, which may become `.grad` without a copy
    Thread  built by the recording thread; in one pass, one engine thread at a time runs it, but
            several passes may overlap
    """

    __slots__ = ("__weakref__", "_called", "edges", "hooks", "output_layout", "seq", "stream")
    is_accumulate: ClassVar[bool] = False
    fresh: ClassVar[bool] = False
    # Whether apply is called even if no output has a gradient. If it is False, the engine does not
    # call apply then, and no input gets a gradient.
    accepts_undefined: ClassVar[bool] = False
    # Whether apply takes sparse gradients; otherwise they are converted to dense ones.
    takes_sparse: ClassVar[bool] = False
    # Whether apply waits for the Node's device or for other workers. If so, it must not run in the
    # device's thread.
    waits: ClassVar[bool] = False
    num_outputs: int = 1
    # Guards the creation of `hooks` and `post_accumulate`, because two threads may add the first
    # hook at the same time. While the lock is held, nothing is allocated or called.
    _first_hook_lock: ClassVar[threading.Lock] = threading.Lock()
    _called: str  # the Node's name; only set in CallNodes, if it differs from the class's name
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
        """Return this Node with the class that users see: see call_node.py."""
        return self

    def name_of_call(self) -> str:
        """Return the name that graphs show."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The Nodes that receive this Node's gradients, each with the index of an output of that
        Node.
        """
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
        """Call hook(grad_inputs, grad_outputs) after this Node has run. If the hook returns a
        value, the value replaces grad_inputs.
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
    """Return the Node that an edge leads to, with the class that users see."""
    return None if edge is None else node_of(edge).shown()


def output_number(edge: Any) -> int:
    """Return the index of the Node's output that an edge refers to."""
    return edge.output_nr if edge.__class__ is Edge else 0


# The users' metadata dicts. They are not attributes of Nodes, because almost no Node has a dict. A
# dict is freed with its Node.
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
    """Return the lowest sequence number of the Nodes at which the gradients of the chosen inputs
    arrive; 0 if one of these inputs is a leaf.
    """
    return min((0 if node.is_accumulate else node.seq for node, _ in outputs), default=0)

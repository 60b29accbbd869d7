"""The Node of a user's Function, whose forward and backward get a ctx (`function_ctx.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

from ..core.errors import GraphError, ShapeError
from ..graph.node import Edge, Node, raise_changed, raise_released
from ..graph.saved_tensors import has_hooks, pack_one
from ..graph.unbroadcast import reduce_recorded
from ..graph.unpacking import unpack_input
from ..ops.create.creation import zeros
from ..tensor.layout import Layout
from ..tensor.storage import Storage, storage_of
from ..tensor.tensor import Tensor, layout_of, wrap
from .function_ctx import FunctionCtx


class HasBackward(Protocol):
    """The method of a user's Function that a FunctionNode calls."""

    def backward(self, ctx: Any, *grad_outputs: Any) -> Any:
        """Return the inputs' gradients."""


class FunctionNode(Node):
    """The Node of a call of a Function. Attributes that users set on ctx can be read from the Node:
    see Note [Whose names stand on ctx].
    """

    function: ClassVar[HasBackward]
    accepts_undefined: ClassVar[bool] = True

    def __init__(self, args: Sequence[Any]) -> None:
        self.hooks = None
        self.seq = 0
        self.output_layout: Any = None
        edges = [a._edge if isinstance(a, Tensor) else None for a in args]
        self.edges = tuple(edges)
        self.wanted = tuple([edge is not None for edge in edges])
        self.users: dict[str, Any] = {"needs_input_grad": self.wanted}
        self._input_layouts = [a._layout if isinstance(a, Tensor) else None for a in args]
        self.dirty: tuple[Tensor, ...] = ()
        self.non_differentiable: set[int] = set()
        self.materializes = True
        self._saved: list[Any] | None = []
        self.for_forward: tuple[Tensor | None, ...] = ()
        self._in_jvp = False
        self._first = args[0] if args else None
        # Keep non-differentiable outputs alive until forward ends, so that no other tensor gets
        # their id.
        self._held: tuple[Any, ...] = ()
        self.to_save: tuple[Tensor | None, ...] = ()

    def mark_non_differentiable(self, tensors: tuple[Tensor, ...]) -> None:
        """Store which outputs have no gradient."""
        self._held = tensors
        self.non_differentiable = {id(tensor) for tensor in tensors}

    def tangent_seen(self, input: Any, tangent: Tensor | None) -> Tensor | None:
        """Return the tangent that jvp gets for an input: zeros for a float tensor that has none."""
        if tangent is not None or not self.materializes or not isinstance(input, Tensor):
            return tangent
        layout = input._layout
        return _zeros_of(layout) if layout.dtype.may_have_gradient else None

    def __getattr__(self, name: str) -> Any:
        users = self.__dict__.get("users", {})
        # Python also calls this for an unset slot; a slot of the Node is never a user's attribute.
        if name in users and not hasattr(type(self), name):
            return users[name]
        raise AttributeError(f"{self.name()} has no attribute {name!r}")

    def keep(self, results: Sequence[Any], returned: Sequence[Any]) -> None:
        """Save the tensors that forward kept for backward, without reference cycles by outputs."""
        position = {id(output): i for i, output in enumerate(returned)}
        self._saved = [self._packed(t, results, position) for t in self.to_save]

    @contextmanager
    def giving_tangents(self) -> Iterator[None]:
        """In this block, make `saved_tensors` return the tensors saved for forward mode."""
        self._in_jvp = True
        try:
            yield
        finally:
            self._in_jvp = False

    def end_forward(self) -> None:
        """Release the values that only forward needed."""
        self.to_save = self.for_forward = self._held = self.dirty = ()
        self._first = None

    def is_first_input(self, tensor: Tensor) -> bool:
        """Return whether tensor is the first argument of forward."""
        return tensor is self._first

    def _packed(
        self, tensor: Tensor | None, results: Sequence[Any], position: dict[int, int]
    ) -> Any:
        if tensor is None:
            return None
        i = position.get(id(tensor))
        storage = storage_of(tensor)
        hooked = has_hooks()
        if i is not None and results[i] is tensor:
            return (_HookedOutput if hooked else _SavedOutput)(tensor, storage, i, self)
        if hooked:
            return (pack_one(tensor), 0, tensor._edge)
        return (tensor, storage.version, tensor._edge)

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The saved tensors, in order.

        Raises  RuntimeError after a pass without retain_graph, or for a tensor that was changed in
                place
        """
        if self._in_jvp:
            return self.for_forward or self.to_save
        if self._saved is None:
            raise_released(self)
        assert self._saved is not None
        return tuple([self._unpacked(saved) for saved in self._saved])

    def _unpacked(self, saved: Any) -> Tensor | None:
        if saved is None:
            return None
        if isinstance(saved, _SavedOutput):
            return saved.unpack(self)
        tensor, version, edge = saved
        return unpack_input(self, tensor, version, edge)

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Run backward, and return its gradients as raw arrays."""
        arrays = g if self.num_outputs > 1 else (g,)
        grads = [
            None if a is None else wrap(a, layout_of(a, layout.device))
            for a, layout in zip(arrays, self._output_layouts(), strict=True)
        ]
        found = self._run(grads, keep)
        return tuple([None if t is None else t._array for t in found])

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Run backward, and return its gradients; in grad mode, backward's ops are recorded."""
        return self._run(list(g) if self.num_outputs > 1 else [g], keep)

    def release(self) -> None:
        """Release the saved values."""
        self._saved = None

    def _output_layouts(self) -> tuple[Layout, ...]:
        return self.output_layout if self.num_outputs > 1 else (self.output_layout,)

    def _run(self, grads: list[Any], keep: bool) -> tuple[Tensor | None, ...]:
        if self.materializes:
            for i, layout in enumerate(self._output_layouts()):
                if grads[i] is None and layout is not None:
                    grads[i] = _zeros_of(layout)
        found = self.function.backward(FunctionCtx(self), *grads)
        if not keep:
            self.release()
        return self._checked(found if isinstance(found, tuple) else (found,))

    def _checked(self, found: tuple[Any, ...]) -> tuple[Tensor | None, ...]:
        expected = len(self.edges)
        if len(found) > expected and all(g is None for g in found[expected:]):
            found = found[:expected]
        if len(found) != expected:
            raise GraphError(
                f"function {self.name()} returned an incorrect number of gradients (expected "
                f"{expected}, got "
                f"{len(found)})"
            )
        return tuple([self._checked_one(i, g) for i, g in enumerate(found)])

    def _checked_one(self, i: int, g: Any) -> Tensor | None:
        layout = self._input_layouts[i]
        if g is None:
            return None
        if not isinstance(g, Tensor):
            raise TypeError(
                f"expected Variable or None (got {type(g).__name__}): gradient {i} of {self.name()}"
            )
        if layout is None:
            raise GraphError(
                f"function {self.name()} returned a gradient different from None at position "
                f"{i + 1}, but the "
                "corresponding forward input was not a Variable"
            )
        if self.edges[i] is None:
            return None
        if not _expandable(layout.shape, g._layout.shape):
            raise ShapeError(
                f"Function {self.name()} returned an invalid gradient at index {i} - got "
                f"{list(g._layout.shape)} but "
                f"expected shape compatible with {list(layout.shape)}"
            )
        if g._layout.device is not layout.device:
            raise GraphError(
                f"Function {self.name()} returned an invalid gradient at index {i} - expected "
                f"device {layout.device} "
                f"but got {g._layout.device}"
            )
        return reduce_recorded(g, layout)


class _SavedOutput:
    """A saved output without its edge: with the edge, the Node would reference itself."""

    __slots__ = ("_array", "_extra", "_storage", "i", "layout", "records", "version")

    def __init__(self, tensor: Tensor, storage: Storage, i: int, node: FunctionNode) -> None:
        self._array, self.layout, self._extra = tensor._array, tensor._layout, tensor._extra
        self._storage, self.version = storage, storage.version
        self.i = i
        self.records = tensor._edge is not None

    def unpack(self, node: FunctionNode) -> Tensor:
        """Return the output with the Node as its edge."""
        if self._storage.version != self.version:
            raise_changed(node, None, self.layout, self.version, self._storage.version)
        alias = wrap(self._array, self.layout)
        alias._extra, alias._storage = self._extra, self._storage
        if self.records:
            alias._edge = Edge(node, self.i) if node.num_outputs > 1 else node
        return alias


class _HookedOutput(_SavedOutput):
    """A saved output in packed form: the result of the pack hook of `saved_tensors_hooks`."""

    __slots__ = ("packed",)

    def __init__(self, tensor: Tensor, storage: Storage, i: int, node: FunctionNode) -> None:
        super().__init__(tensor, Storage(), i, node)
        self.packed = pack_one(tensor)
        self._array = None

    def unpack(self, node: FunctionNode) -> Tensor:
        """Return the unpack hook's result with the Node as its edge."""
        alias = super().unpack(node)
        alias._array = self.packed._array
        return alias


def _zeros_of(layout: Layout) -> Tensor:
    return zeros(layout.shape, dtype=layout.dtype, device=layout.device)


def _expandable(target: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether `target` broadcasts to `shape`. If so, a gradient of shape `shape` can be
    summed to `target`.
    """
    if len(target) > len(shape):
        return False
    return all(n in (1, m) for n, m in zip(reversed(target), reversed(shape)))

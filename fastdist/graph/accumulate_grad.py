"""The Node of a leaf, which accumulates gradients into `.grad`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, ClassVar
from weakref import WeakKeyDictionary, ref

import numpy as np

from ..core.dense_order import dense_order, undone
from ..core.device import CPU
from ..devices.backend import backend_of
from ..devices.cpu import add_into
from ..kernels.cpu.silence import silent
from ..system.forked_locks import renew_in_children
from ..tensor.layout import Layout
from ..tensor.sparse import Coo
from ..tensor.storage import storage_of
from ..tensor.tensor import Extra, Tensor, layout_near, layout_of, wrap
from .add_gradients import add_sparse
from .forward_streams import follow
from .modes import enable_grad
from .node import Node, RemovableHandle

# Held while a tensor becomes a leaf that requires grad. Reentrant, because finalizers may take it.
_leaves_lock = threading.RLock()
renew_in_children(sys.modules[__name__], "_leaves_lock")
_LAST = 1 << 62  # above `seq` of all Nodes, so a pass adds a leaf's gradient when it arrives


# Leaf -> hook(context). A distributed pass accumulates the leaf's gradient in its context instead
# of in `.grad`, and then calls the hook.
context_hooks: WeakKeyDictionary[AccumulateGrad, Callable[[Any], None]] = WeakKeyDictionary()


class AccumulateGrad(Node):
    """Accumulates gradients into the `.grad` of one leaf.

    Refers to `.grad`, the hooks, and the leaf's array, layout, storage and class, because these
    must outlive a Tensor that the user dropped. It refers to the Tensor itself only weakly: with a
    cycle leaf -> edge -> leaf, only the garbage collector could free a leaf.

    Thread  any; `lock` guards `grad`
    """

    __slots__ = ("_array", "_storage", "_variable", "cls", "grad", "lock", "post_accumulate")
    is_accumulate: ClassVar[bool] = True
    takes_sparse: ClassVar[bool] = True

    def __init__(self, leaf: Tensor) -> None:
        self.seq = _LAST
        self.edges = ()
        self.hooks = None
        self.output_layout: Layout = leaf._layout
        self._array = leaf._array
        self._storage = leaf._storage
        self.cls = leaf.__class__
        self.grad: Tensor | None = None
        self.lock = threading.Lock()
        self.post_accumulate: dict[int, Callable[[Tensor], None]] | None = None
        self._variable = ref(leaf)

    def name(self) -> str:
        """Return PyTorch's name of this Node class."""
        return "torch::autograd::AccumulateGrad"

    @property
    def variable(self) -> Tensor:
        """The leaf; a new Tensor over the same array if the user has dropped the old one."""
        leaf = self._variable()
        if leaf is None:
            with self.lock:
                leaf = self._variable()
                if leaf is None:
                    leaf = object.__new__(self.cls)
                    leaf._array, leaf._layout, leaf._storage = (
                        self._array,
                        self.output_layout,
                        self._storage,
                    )
                    leaf._edge, leaf._extra = self, None
                    self._variable = ref(leaf)
        return leaf

    def attach(self, leaf: Tensor) -> None:
        """Become leaf's edge again, after requires_grad_ or an assignment to leaf.data."""
        self._array, self.output_layout, self._storage = leaf._array, leaf._layout, leaf._storage
        self._variable = ref(leaf)
        leaf._edge = self

    def accumulate(self, g: Any, fresh: bool, stream: Any = None) -> None:
        """Add a raw array to `.grad`. If it is `fresh`, no other code uses it, and `.grad` may keep
        it without a copy. `stream` is the current stream of the leaf's device, or None on the CPU.
        """
        with self.lock:
            if stream is not None:
                self._follow(stream)
            grad = self.grad
            if grad is None:
                layout = self.output_layout
                if g.__class__ is Coo:
                    layout = g.layout
                elif not (fresh and is_dense(g, layout)):
                    g, layout = self._kept(g)
                self.grad = wrap(g, layout)
            elif g.__class__ is Coo or grad._array.__class__ is Coo:
                added = wrap(g, layout_of(g, self.output_layout.device))
                if grad._edge is not None:
                    self.grad = _add(grad, added)
                else:
                    self.grad = add_sparse(grad, added, in_place=True)
            elif grad._edge is None:
                # In place, as in PyTorch without create_graph: existing references to `.grad` see
                # the sum.
                array, layout = grad._array, grad._layout
                if layout.device is not CPU:
                    backend_of(layout.device.type).add_into(array, g)
                elif layout.contiguous:
                    add_into(array, g)
                else:
                    _add_across(layout, array, g)
                (grad._storage or storage_of(grad)).bump()
            else:
                self.grad = _add(grad, wrap(g, layout_of(g, self.output_layout.device)))
        if self.post_accumulate:
            self._run_post_accumulate()

    def _kept(self, g: Any) -> tuple[Any, Layout]:
        """Return a copy of a raw array, and the copy's layout. As in PyTorch, it is the layout of
        the leaf if the leaf has no gaps in memory, otherwise C order.
        """
        layout = self.output_layout
        backend = backend_of(layout.device.type)
        order = None if layout.contiguous else dense_order(layout.shape, layout.strides)
        if order is not None:
            g = g.transpose(order)
        kept = backend.empty(g.shape, layout.dtype.numpy, layout.device.index)
        backend.copy_into(kept, g)
        if order is not None:
            return kept.transpose(undone(order)), layout
        if layout.contiguous:
            return kept, layout  # without Layout.of, which takes 0.4 us
        return kept, Layout.of(layout.dtype, layout.device, layout.shape)

    def accumulate_recorded(self, g: Tensor, stream: Any = None) -> None:
        """Add a gradient that has a graph (create_graph). The sum is a new tensor with a graph."""
        with self.lock:
            if stream is not None:
                self._follow(stream)
            # Copy g: another leaf may have the same gradient g, and later sums change `.grad` in
            # place.
            self.grad = _copy(g) if self.grad is None else _add(self.grad, g)
        if self.post_accumulate:
            self._run_post_accumulate()

    def _follow(self, stream: Any) -> None:
        # The caller holds the lock, because a pass on another stream may add to the same leaf.
        follow(stream, getattr(self, "stream", None), () if self.grad is None else (self.grad,))
        self.stream = stream

    def _run_post_accumulate(self) -> None:
        for hook in tuple((self.post_accumulate or {}).values()):
            hook(self.variable)

    def register_post_accumulate_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call hook(leaf) after each accumulation into its `.grad`."""
        if self.post_accumulate is None:
            made: dict[int, Callable[[Tensor], None]] = {}
            with Node._first_hook_lock:
                if self.post_accumulate is None:
                    self.post_accumulate = made
        return RemovableHandle(self.post_accumulate, hook)


def is_dense(g: Any, layout: Layout) -> bool:
    """Return whether a raw array and `layout` are in C order, and the array may be written to."""
    if g.__class__ is np.ndarray:
        # NumPy may report C order for one number that was expanded, but that array must not be
        # written to.
        return bool(layout.contiguous and g.flags.c_contiguous and g.flags.writeable)
    return layout.contiguous and layout_near(g, layout) is layout


_ORDER = "the order of the axes in memory"


@silent  # type: ignore[untyped-decorator]
def _add_across(layout: Layout, total: np.ndarray[Any, Any], g: np.ndarray[Any, Any]) -> None:
    """Add g to total, which is not in C order. First copy g into the order of total's axes.

    Note    without the copy, NumPy would add arrays of different orders one number at a time. Times
            in us without and with the copy: 8x8 float32 0.9 and 0.4, 256x256x3x3 430 and 190 (AMD
            EPYC, Zen 4)
    """
    if total.itemsize <= 2:
        add_into(total, g)
    elif total.flags.f_contiguous:
        np.add(total, g.copy("F"), total)
    else:
        order = layout.routes.get(_ORDER)
        if order is None:
            order = layout.routes.remember(_ORDER, dense_order(layout.shape, layout.strides) or ())
        if order:
            total, g = total.transpose(order), np.ascontiguousarray(g.transpose(order))
        np.add(total, g, total)


def _add(a: Tensor, b: Tensor) -> Tensor:
    with enable_grad():
        return a + b


def _copy(g: Tensor) -> Tensor:
    with enable_grad():
        return g.clone()


def accumulator_of(tensor: Tensor) -> AccumulateGrad:
    """Return the leaf's AccumulateGrad: the current one, the one kept by `freeze`, or a new one."""
    edge = tensor._edge
    if edge is not None:
        if not edge.is_accumulate:
            raise RuntimeError(f"{edge.name()} made this tensor; only a leaf has an AccumulateGrad")
        return edge  # type: ignore[no-any-return]
    made = AccumulateGrad(tensor)
    # Two threads that request it at the same time must get the same object.
    with _leaves_lock:
        if tensor._edge is not None:
            return tensor._edge  # type: ignore[no-any-return]
        extra = tensor._extra
        if extra is not None and extra.frozen is not None:
            accumulator: AccumulateGrad = extra.frozen
            extra.frozen = None
            accumulator.attach(tensor)
            return accumulator
        if extra is not None and extra.grad is not None:
            made.grad, extra.grad = extra.grad, None
        tensor._edge = made
    return made


def freeze(tensor: Tensor) -> None:
    """Remove a leaf from the graph. Its `.grad` and hooks are restored if it requires grad
    again.
    """
    with _leaves_lock:
        accumulator = tensor._edge
        tensor._edge = None
        if accumulator is not None:
            extra_of(tensor).frozen = accumulator


def extra_of(tensor: Tensor) -> Extra:
    """Return the tensor's Extra; make it if there is none."""
    extra = tensor._extra
    if extra is None:
        with _leaves_lock:
            # Another thread may have made the Extra meanwhile.
            extra = tensor._extra
            if extra is None:
                extra = tensor._extra = Extra()
    return extra

"""Views whose values are conjugated or negated when they are read."""

# Note [Lazily conjugated views]
# x.conj() shares x's memory, and a NumPy array cannot present that memory conjugated. So the view
# is a separate subclass of Tensor with `value`, a plain view of that memory. Its `_array` is
# computed when it is read, so code without a rule for such views computes correct results. Ops get
# a resolved tensor instead, in which the conjugation is already computed (call.py). A view of the
# view is a view of value (view.py). An in-place op writes into a resolved tensor, which is then
# written back into value (`write_through`). Short paths take only plain tensors, so other calls
# cost nothing extra. Such a view is never an instance of a user's subclass of Tensor: converting it
# would make a copy, and writes would be lost.
#
# In the graph the view is one Node over value's edge. Resolved tensors of the view share that Node,
# and views of the view are recorded over it, because hooks and gradients of the view may be needed.
# An in-place change gives value a new edge, as for all views of a base, and then the view's Node is
# made again.

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.errors import DTypeError
from ..core.torch_function import NEVER_ASKED, disabled_torch_function
from ..devices.backend import backend_of
from ..tensor.memory import empty_in_layout
from ..tensor.storage import storage_of
from ..tensor.subclasses import STAY_AS_THEY_ARE
from ..tensor.tensor import Extra, Tensor, wrap
from ..tensor.view_steps import ViewSteps
from .modes import enable_grad


class LazyConjNeg(Tensor):
    """A view of `value`, a plain Tensor over the same memory, that applies `change` to its values.
    `change` is the op conj or neg, each of which is its own inverse.
    """

    __slots__ = ("_kept_extra", "_node", "change", "value")
    __torch_function__ = disabled_torch_function
    value: Tensor
    change: Any
    _kept_extra: Extra
    _node: tuple[Any, Any]  # value's edge, and the edge of the result of change

    @property
    def _array(self) -> Any:
        """The values of the view, in new memory, which is read-only."""
        # Run the kernel directly, not the op: interpreters must not see a call.
        layout, numbers = self._layout, wrap(self.value._array, self._layout)
        found = self.change.route_call((numbers,), (), self.change)[0].run(numbers._array)
        made = empty_in_layout(layout)
        backend_of(layout.device.type).copy_into(made, found)
        if isinstance(made, np.ndarray):
            made.flags.writeable = False
        return made

    @_array.setter
    def _array(self, array: Any) -> None:
        self.set_()

    def set_(self, *given: Any, **more: Any) -> Any:
        """Raise RuntimeError: the view shows the memory of another tensor."""
        raise RuntimeError(
            f"a {self.adjective} view cannot be given other memory, or another length: it sees "
            "that of "
            f"another tensor; call resolve_{self.change.name}() first"
        )

    resize_ = resize_as_ = set_

    @property
    def _edge(self) -> Any:
        """The edge of the view: see Note [Lazily conjugated views]."""
        of = self.value._edge
        if of is None:
            return None
        if self._node[0] is not of:
            self._node = of, changed_edge(self.change, self.value, of)
        return self._node[1]

    @_edge.setter
    def _edge(self, edge: Any) -> None:
        if edge is None:
            self.value._edge = None
            return
        self.value._edge = changed_edge(self.change, self.value, edge)
        self._node = self.value._edge, edge

    def _is_own_leaf(self) -> bool:
        of = self.value._edge
        return of is not None and of.is_accumulate and of._variable() is self.value

    @property
    def requires_grad(self) -> bool:
        """Whether the view needs a gradient. Setting it makes `value` the leaf."""
        return self.value._edge is not None

    @requires_grad.setter
    def requires_grad(self, requires_grad: bool) -> None:
        self.requires_grad_(requires_grad)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Turn gradients of this leaf on or off; return the tensor."""
        of: Any = self.value if self.is_leaf else super()
        of.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made this tensor."""
        return self.value._edge is None or self._is_own_leaf()

    @property
    def grad_fn(self) -> Any:
        """The Node that made this tensor; None for leaves."""
        return None if self.is_leaf else super().grad_fn

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward accumulated for this leaf, or retained result."""
        if not self.is_leaf:
            return super().grad
        grad = self.value.grad
        return None if grad is None else lazy_view(grad, self.change)

    @grad.setter
    def grad(self, grad: Tensor | None) -> None:
        if self.is_leaf and isinstance(grad, Tensor):
            self.value.grad = self.change(grad)
        else:
            of: Any = self.value if self.is_leaf else self._kept_extra
            of.grad = grad

    @property
    def _extra(self) -> Any:
        """The base and version of the view; its tangents are computed from value's."""
        self._kept_extra.tangents = None
        return self._kept_extra

    @_extra.setter
    def _extra(self, extra: Any) -> None:
        self._kept_extra = extra

    @property
    def adjective(self) -> str:
        """The name of the change in errors: conjugated or negated."""
        return "conjugated" if self.change.name == "conj" else "negated"

    def no_other_dtype(self, called: str) -> DTypeError:
        """Return the error for code that would read the memory directly, without the change."""
        return DTypeError(
            f"{called} is not supported for a {self.adjective} view: numbers of another dtype "
            "would "
            f"not be {self.adjective}. To resolve it, use resolve_{self.change.name}(), which "
            "copies"
        )

    def resolved(self) -> Tensor:
        """Return a tensor with the changed values, in new memory, with the same edge."""
        made: Tensor = self.change(self.value)
        if made._edge is not None:
            if self._node[0] is not self.value._edge:
                self._node = self.value._edge, made._edge
            made._edge = self._node[1]
        return made

    @property
    def _base(self) -> Tensor:
        extra = self.value._extra
        return self.value if extra is None or extra.base is None else extra.base

    def detach(self) -> LazyConjNeg:
        """Return the same view of the memory, outside of any graph."""
        return lazy_view(self.value.detach(), self.change)

    @property
    def data(self) -> Tensor:
        """The same view outside of any graph; an assignment replaces value's memory."""
        return lazy_view(self.value.data, self.change)

    @data.setter
    def data(self, data: Tensor) -> None:
        self.value.data = self.change(data)
        self._layout = self.value._layout

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """Return a copy of the changed values if force: NumPy has no such view.

        Raises  RuntimeError without force
        """
        if not force:
            bit = "conjugate" if self.change.name == "conj" else "negative"
            resolve = f"resolve_{self.change.name}"
            raise RuntimeError(
                f"Can't call numpy() on Tensor that has {bit} bit set. Use "
                f"tensor.{resolve}().numpy() instead."
            )
        return self.resolved().numpy(force=True)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def stride(self, dim: Any = None) -> Any:
        """Return the strides in elements, or the stride of one axis."""
        return self.value.stride(dim)

    def data_ptr(self) -> int:
        """Return the address of the first element; the number stored there is not changed."""
        return self.value.data_ptr()

    def storage_offset(self) -> int:
        """Return the number of elements in the storage before the first one of the view."""
        return self.value.storage_offset()

    def untyped_storage(self) -> Any:
        """Return the storage of the viewed memory, as bytes."""
        return self.value.untyped_storage()

    def storage(self) -> Any:
        """Return the storage of the viewed memory, as elements of its dtype."""
        return self.value.storage()

    _typed_storage = storage

    def is_shared(self) -> bool:
        """Return whether other processes share the memory."""
        return self.value.is_shared()

    def share_memory_(self) -> Tensor:
        """Move the memory to shared memory, which other processes can map."""
        self.value.share_memory_()
        return self

    def __dlpack__(self, **more: Any) -> Any:
        """Raise an error: other libraries have no such view."""
        raise BufferError(
            f"Can't export a {self.adjective} view: call resolve_{self.change.name}(), which copies"
        )

    def __copy__(self) -> Tensor:
        return self.detach().requires_grad_(self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        known = memo.get(id(self))
        if known is not None:
            return known
        of: Any = self.detach() if self.is_leaf else self
        twin: Tensor = copy.deepcopy(of.resolved(), memo)
        if self.requires_grad:
            twin.requires_grad_().grad = copy.deepcopy(self.grad, memo)
        memo[id(self)] = twin
        return twin

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.resolved().__reduce_ex__(protocol)


# Users see this class as Tensor.
LazyConjNeg.__name__ = LazyConjNeg.__qualname__ = "Tensor"
LazyConjNeg.__module__ = Tensor.__module__
NEVER_ASKED.add(LazyConjNeg)
STAY_AS_THEY_ARE.add(LazyConjNeg)


def lazy_view(value: Tensor, change: Any) -> LazyConjNeg:
    """Return a view of value that applies the op change to the values when they are read."""
    out: Any = object.__new__(LazyConjNeg)
    out.value, out.change, out._layout = value, change, value._layout
    out._node, out._kept_extra = (None, None), Extra()
    out._kept_extra.base, out._kept_extra.replay = value, ViewSteps(None, (change, ()))
    out._storage = storage_of(value)
    return out  # type: ignore[no-any-return]


def changed_edge(change: Any, like: Tensor, edge: Any) -> Any:
    """Return the edge of change(x), for a tensor x that has like's layout and this edge."""
    numbers, made = wrap(like._array, like._layout), wrap(None, like._layout)
    numbers._edge = edge
    route, values = change.route_call((numbers,), (), change)
    with enable_grad():
        change.record((made,), values, route)
    return made._edge


def resolved(value: Any) -> Any:
    """Return value; a lazy conj or neg view is replaced by a tensor with the computed values."""
    return value.resolved() if value.__class__ is LazyConjNeg else value


def write_through(target: LazyConjNeg, write: Callable[[Tensor], Any]) -> Tensor:
    """Call write on target's resolved tensor, copy it back into target's memory, and return target.

    See Note [Lazily conjugated views].
    """
    numbers = target.resolved()
    write(numbers)
    target.value.copy_(target.change(numbers))
    return target

"""Views whose values are conjugated or negated when they are read."""

# Note [Lazily conjugated views]
# x.conj() shares x's memory, and no NumPy array can show that memory with conjugated values. So the
# conjugated view is an object of a separate subclass of Tensor. Its attribute `value` is a plain
# view of that memory. Its `_array` is computed when it is read, so code without a rule for such
# views computes correct results. Ops get a resolved tensor instead, in which the conjugation is
# already computed (call.py). A view of a conjugated view is itself a conjugated view, over a view
# of `value` (view.py). An in-place op writes into a resolved tensor, which is then written back
# into `value` (`write_through`). Short paths take only plain tensors, so other calls cost nothing
# extra. A conjugated view is never an instance of a user's subclass of Tensor: conversion to that
# class would make a copy, and writes to the view would be lost.
#
# In the graph the conjugated view has one Node, whose input is the edge of `value`. Resolved
# tensors of the view share that Node, and views of the view lead to it, because hooks and gradients
# of the view may be needed. An in-place change gives `value` a new edge, as for all views of a
# base, and then the conjugated view gets a new Node.

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
    """A view of the memory of `value`, a plain Tensor. It shows the result of the op `change` on
    the values there. `change` is conj or neg; each of the two is its own inverse.
    """

    __slots__ = ("_kept_extra", "_node", "change", "value")
    __torch_function__ = disabled_torch_function
    value: Tensor
    change: Any
    _kept_extra: Extra
    _node: tuple[Any, Any]  # the edge of `value`, and the edge of change(value)

    @property
    def _array(self) -> Any:
        """The values of the view, in new memory, which is read-only."""
        # Run the kernel directly, not the op, because interpreters must not see this call.
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
        """Raise RuntimeError: the memory belongs to another tensor."""
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
        """Whether the view needs a gradient. Setting it to True makes `value` a leaf."""
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
        """The gradient that backward accumulated, for a leaf or after `retain_grad`; else None."""
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
        """The Extra of the view. It keeps no tangents: they are computed from those of `value`."""
        self._kept_extra.tangents = None
        return self._kept_extra

    @_extra.setter
    def _extra(self, extra: Any) -> None:
        self._kept_extra = extra

    @property
    def adjective(self) -> str:
        """The word for `change` in error messages: conjugated or negated."""
        return "conjugated" if self.change.name == "conj" else "negated"

    def no_other_dtype(self, called: str) -> DTypeError:
        """Return the error for code that would read the memory without applying `change`."""
        return DTypeError(
            f"{called} is not supported for a {self.adjective} view: numbers of another dtype "
            "would "
            f"not be {self.adjective}. To resolve it, use resolve_{self.change.name}(), which "
            "copies"
        )

    def resolved(self) -> Tensor:
        """Return a tensor with the view's values in new memory, and with the view's edge."""
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
        """Return a view of the same memory with the same values, outside of any graph."""
        return lazy_view(self.value.detach(), self.change)

    @property
    def data(self) -> Tensor:
        """The same view outside of any graph. An assignment replaces the memory of `value`."""
        return lazy_view(self.value.data, self.change)

    @data.setter
    def data(self, data: Tensor) -> None:
        self.value.data = self.change(data)
        self._layout = self.value._layout

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """Return a copy of the view's values if `force` is true, because NumPy has no such views.

        Raises  RuntimeError if `force` is false
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
        """Return the address of the first element. The memory holds the values without `change`."""
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
    """Return a view of the memory of `value`; reading the view gives `change(value)`."""
    out: Any = object.__new__(LazyConjNeg)
    out.value, out.change, out._layout = value, change, value._layout
    out._node, out._kept_extra = (None, None), Extra()
    out._kept_extra.base, out._kept_extra.replay = value, ViewSteps(None, (change, ()))
    out._storage = storage_of(value)
    return out  # type: ignore[no-any-return]


def changed_edge(change: Any, like: Tensor, edge: Any) -> Any:
    """Return the edge of change(x), for a tensor x that has the layout of `like` and this edge."""
    numbers, made = wrap(like._array, like._layout), wrap(None, like._layout)
    numbers._edge = edge
    route, values = change.route_call((numbers,), (), change)
    with enable_grad():
        change.record((made,), values, route)
    return made._edge


def resolved(value: Any) -> Any:
    """Return `value`, or for a lazy conj or neg view a plain tensor with the view's values."""
    return value.resolved() if value.__class__ is LazyConjNeg else value


def write_through(target: LazyConjNeg, write: Callable[[Tensor], Any]) -> Tensor:
    """Call `write` on the resolved tensor of `target`, copy its values back, and return `target`.

    See Note [Lazily conjugated views].
    """
    numbers = target.resolved()
    write(numbers)
    target.value.copy_(target.change(numbers))
    return target

"""Tensor's attributes for autograd: requires_grad, grad, grad_fn, hooks; attached at import."""

from __future__ import annotations

from collections.abc import Callable

from ..core.caller_warning import warn_caller
from ..core.errors import GraphError, ShapeError
from ..core.folded_frames import fold
from ..core.short_repr import short_repr
from ..tensor.methods import TensorMethods
from ..tensor.tensor import Tensor
from .accumulate_grad import AccumulateGrad, accumulator_of, extra_of, freeze
from .lazy_conj_neg import resolved
from .node import Node, RemovableHandle, node_of, output_number, shown_node_of


def _requires_grad(self: Tensor) -> bool:
    """Whether this tensor needs gradients."""
    return self._edge is not None


def _set_requires_grad(self: Tensor, value: bool) -> None:
    try:
        if not isinstance(value, bool):
            raise RuntimeError(f"requires_grad must be a bool, got {short_repr(value)}")
        requires_grad_(self, value)
    except Exception as error:
        fold(error)
        raise


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Turn gradients of this leaf on or off; return the tensor.

    Raises  RuntimeError to turn gradients off for a tensor that an op made, or on for a dtype that
            is not floating-point or complex; TypeError for a value that is not a bool
    """
    try:
        if requires_grad.__class__ is not bool:
            raise TypeError(
                "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not "
                f"{type(requires_grad).__name__} {short_repr(requires_grad)}"
            )
        edge = self._edge
        if requires_grad:
            if edge is None:
                if not self._layout.dtype.may_have_gradient:
                    raise RuntimeError(
                        "only Tensors of floating point and complex dtype can require gradients, "
                        f"got {self._layout.dtype.name}"
                    )
                accumulator_of(self)
        elif edge is not None:
            if not edge.is_accumulate:
                raise RuntimeError(
                    "you can only change requires_grad flags of leaf variables. If you want to use "
                    "a computed variable in a subgraph that doesn't require differentiation use "
                    "var_no_grad = var.detach()."
                )
            freeze(self)
        return self
    except Exception as error:
        fold(error)
        raise


def _is_leaf(self: Tensor) -> bool:
    """Whether no recorded op made this tensor."""
    return self._edge is None or self._edge.is_accumulate


def _grad_fn(self: Tensor) -> Node | None:
    """The Node that made this tensor; None for leaves."""
    edge = self._edge
    return None if edge is None or edge.is_accumulate else shown_node_of(edge)


def _output_nr(self: Tensor) -> int:
    """The index of this tensor among the outputs of its grad_fn; 0 for a leaf."""
    return output_number(self._edge)


def _grad(self: Tensor) -> Tensor | None:
    """The gradient that backward accumulated, for a leaf or for a result after `retain_grad`; None
    if there is none yet.
    """
    edge = self._edge
    if edge.__class__ is AccumulateGrad:
        grad: Tensor | None = edge.grad
        return grad
    extra = self._extra
    if extra is not None and extra.frozen is not None:
        frozen: Tensor | None = extra.frozen.grad
        return frozen
    own = None if extra is None else extra.grad
    if own is None and edge is not None and not _retains_grad(self):
        warn_caller(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its "
            ".grad attribute won't be populated during autograd.backward(). If you indeed want the "
            ".grad field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf "
            "Tensor. If you access the non-leaf Tensor by mistake, make sure you access the leaf "
            "Tensor instead."
        )
    return own


def _set_grad(self: Tensor, grad: Tensor | None) -> None:
    if grad is not None:
        if not isinstance(grad, Tensor):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got {type(grad).__name__}"
            )
        grad = resolved(grad)  # passes add to `grad` in place, and optimizers read its array
        if grad is self:
            raise RuntimeError("can't assign Tensor as its own grad")
        if grad._layout.shape != self._layout.shape:
            raise ShapeError(
                f"attempting to assign a gradient of size '{list(grad._layout.shape)}' to a tensor "
                f"of size '{list(self._layout.shape)}'"
            )
        if (
            grad._layout.dtype is not self._layout.dtype
            or grad._layout.device is not self._layout.device
        ):
            raise RuntimeError(
                f"attempting to assign a gradient with dtype '{grad._layout.dtype.name}' on "
                f"{grad._layout.device} to a tensor with dtype '{self._layout.dtype.name}' on "
                f"{self._layout.device}"
            )
    edge = self._edge
    if edge.__class__ is AccumulateGrad:
        edge.grad = grad
    elif self._extra is not None and self._extra.frozen is not None:
        self._extra.frozen.grad = grad
    elif grad is not None or self._extra is not None:
        extra_of(self).grad = grad


def retain_grad(self: Tensor) -> None:
    """Keep this result's gradient in `.grad` after backward.

    Raises  RuntimeError for a tensor that does not require grad
    """
    if self._edge is None:
        raise GraphError("can't retain_grad on Tensor that has requires_grad=False")
    if self._edge.is_accumulate:
        return
    extra = extra_of(self)

    def keep(grad: Tensor | None) -> None:
        if grad is not None:
            # Copy the gradient: it may be one expanded number, or belong to other tensors too.
            extra.grad = _copy(grad) if extra.grad is None else extra.grad + grad

    node = node_of(self._edge)
    node._hooks().retains[output_number(self._edge)] = keep


def _copy(grad: Tensor) -> Tensor:
    # The copy is in C order with all its elements: one expanded number could not be changed in
    # place.
    return grad.clone() if grad._layout.contiguous and 0 not in grad._array.strides else grad * 1


def _retains_grad(self: Tensor) -> bool:
    """Whether retain_grad was called on this result."""
    edge = self._edge
    if edge is None or edge.is_accumulate:
        return False
    hooks = node_of(edge).hooks
    return hooks is not None and output_number(edge) in hooks.retains


def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call hook(grad) each time this tensor's gradient is computed. If the hook returns a Tensor,
    this Tensor replaces the gradient.

    Raises  RuntimeError for a tensor that does not require grad

    Args:
        hook: A function of the gradient.

    Returns:
        A handle, whose `remove()` removes the hook.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> handle = x.register_hook(lambda gradient: 10 * gradient)
        >>> x.sum().backward()
        >>> x.grad
        tensor([10., 10.])
    """
    if self._edge is None:
        raise GraphError("cannot register a hook on a tensor that doesn't require gradient")
    hooks = node_of(self._edge)._hooks().tensor
    return RemovableHandle(hooks.setdefault(output_number(self._edge), {}), hook)


def register_post_accumulate_grad_hook(
    self: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Call hook(tensor) each time after a gradient was added to this leaf's `.grad`.

    Raises  RuntimeError unless the tensor is a leaf and requires grad
    """
    edge = self._edge
    if edge.__class__ is not AccumulateGrad:
        raise GraphError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return edge.register_post_accumulate_hook(hook)


def _is_view(self: Tensor) -> bool:
    """Whether this tensor is a view of another tensor."""
    return self._extra is not None and self._extra.base is not None


def _base(self: Tensor) -> Tensor | None:
    """The base of this view; None for a tensor that is not a view."""
    return None if self._extra is None else self._extra.base


def attach() -> None:
    """Attach these functions to Tensor."""
    for name, method in (
        ("requires_grad_", requires_grad_),
        ("retain_grad", retain_grad),
        ("register_hook", register_hook),
        ("register_post_accumulate_grad_hook", register_post_accumulate_grad_hook),
        ("_is_view", _is_view),
        ("requires_grad", property(_requires_grad, _set_requires_grad)),
        ("grad", property(_grad, _set_grad, lambda self: _set_grad(self, None))),
        ("is_leaf", property(_is_leaf)),
        ("grad_fn", property(_grad_fn)),
        ("output_nr", property(_output_nr)),
        ("retains_grad", property(_retains_grad)),
        ("_base", property(_base)),
    ):
        setattr(TensorMethods, name, method)


attach()

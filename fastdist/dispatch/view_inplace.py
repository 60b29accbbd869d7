"""In-place ops that change how a tensor is viewed, not its numbers: `t_`, `squeeze_`, `detach_`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.errors import GraphError
from ..graph.accumulate_grad import freeze
from ..graph.lazy_conj_neg import LazyConjNeg
from ..graph.modes import enable_grad
from ..interpreters.batched_tensor import Batched
from ..interpreters.torch_function import overridable_by_modes
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor
from .copy_inplace import dressed_as_twin
from .inplace import require_may_change, set_edge
from .needs_derivative import has_tangents


def view_inplace_of(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a view op in place: its first argument becomes the view that the op would return.

    Raises  RuntimeError for a leaf that requires grad, a tensor with a live recorded view, and one
            with a tangent
    """

    @overridable_by_modes
    def inplace(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if isinstance(self, Batched | LazyConjNeg):
            other: Any = function(self, *args, **kwargs)
            self.value, self._layout, self.extra = other.value, other._layout, other.extra
            if self._storage is not None:
                self._storage.bump()
            return self
        require_may_change(self, writing=False)
        _require_unseen(name, self)
        # Recorded in no_grad as well: an edge with another shape would be of no use.
        with enable_grad():
            seen = function(self, *args, **kwargs)
        if self.extra is not None and self.extra.base is not None:
            # A view of a base stays one, with one more step.
            assert seen.extra is not None
            self.extra.base, self.extra.replay = seen.extra.base, seen.extra.replay
        self.array, self._layout = seen.array, seen._layout
        if self.edge is not None:
            if self.edge.is_accumulate:
                self.edge.attach(self)
            else:
                seen.edge.in_place = True
                set_edge(self, seen.edge)
        # Values that were saved of this tensor have another shape now.
        storage_of(self).bump()
        return self

    doc = "In-place version of {}: lets this tensor be that view, and returns it."
    return dressed_as_twin(inplace, name, function, doc)


def _require_unseen(name: str, target: Tensor) -> None:
    """Raise if a view is alive whose recipe depends on the present layout of target.

    Raises  RuntimeError
    """
    if has_tangents((target,)):
        raise GraphError(f"{name}_: the tensor has a forward-mode tangent; use {name}()")
    if target._storage is None or (target.extra is not None and target.extra.base is not None):
        return
    for view in target._storage.living_views():
        if view.extra is not None and view.extra.base is target:
            raise GraphError(
                f"{name}_: a view of shape {view._layout.shape} of this tensor is in use, and "
                f"depends on the tensor's present shape {target._layout.shape}; use {name}(), or "
                "take the view afterwards"
            )


@overridable_by_modes
def detach_(self: Tensor) -> Tensor:
    """Take this tensor out of its graph, so that it is a leaf without gradient or tangent.

    Raises  RuntimeError for a view, which its base would attach to the graph again
    """
    if isinstance(self, Batched):
        self.value = self.value.detach()  # its graph and tangents are its own
        return self
    if self.extra is not None and self.extra.base is not None:
        raise GraphError(
            "Can't detach views in-place. Use detach() instead. If you are using "
            "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
            "True, gradients are views of DDP buckets, and hence detach_() cannot be called on "
            "them: the gradient of the base would still flow through this view"
        )
    if self.edge is not None and self.edge.is_accumulate:
        freeze(self)
    if self.extra is not None:
        self.extra.tangents = None
    self.edge = None
    return self

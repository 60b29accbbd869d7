"""DistributedOptimizer: one optimiser on each worker that owns parameters, stepped together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.future import Future
from ..optim.optimizer import Optimizer
from ..tensor.tensor import Tensor
from . import rpc
from .autograd import get_gradients


class DistributedOptimizer:
    """Steps parameters where they live, with the gradients of a distributed autograd context.

    Made of an optimiser's class, RRefs of the parameters, and what the class takes besides. Each
    owner gets one optimiser for all of its parameters; state and gradients never travel.

    Thread  any; two steps meet in no `.grad`, and on a worker the second waits for the first
    Raises  what the class raises on the owners, TypeError for what is no Optimizer or RRef
    """

    def __init__(
        self,
        optimizer_class: type[Optimizer],
        params_rref: Iterable[rpc.RRef[Tensor]],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if not (isinstance(optimizer_class, type) and issubclass(optimizer_class, Optimizer)):
            raise TypeError(
                f"DistributedOptimizer: expected a class of fastdist.optim, got {optimizer_class!r}"
            )
        if isinstance(params_rref, rpc.RRef):
            raise TypeError("DistributedOptimizer: expected a list of RRefs, got one RRef")
        by_owner: dict[str, list[rpc.RRef[Tensor]]] = {}
        for rref in params_rref:
            if not isinstance(rref, rpc.RRef):
                raise TypeError(
                    "DistributedOptimizer: expected RRefs of parameters, got "
                    f"{type(rref).__name__}; wrap it: rpc.RRef(parameter)"
                )
            by_owner.setdefault(rref.owner_name(), []).append(rref)
        if not by_owner:
            raise ValueError("optimizer got an empty parameter list")
        # All at once: an owner may take its time to import what the class needs.
        made = [
            rpc.rpc_async(owner, _make_local_optimizer, (optimizer_class, rrefs, args, kwargs))
            for owner, rrefs in by_owner.items()
        ]
        self.remote_optimizers: list[rpc.RRef[LocalOptimizer]] = _wait_for_all(made)

    def step(self, context_id: int) -> None:
        """Step all parameters that got a gradient in the context; wait until all owners have.

        Raises  RuntimeError if a worker does not know the context; what failed on any worker, after
                all others have stepped
        """
        _wait_for_all(
            [
                rpc.rpc_async(rref.owner(), _step, (rref, context_id))
                for rref in self.remote_optimizers
            ]
        )


class LocalOptimizer:
    """The optimiser of the parameters that live on this worker."""

    def __init__(
        self,
        optimizer_class: type[Optimizer],
        rrefs: list[rpc.RRef[Tensor]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.optimizer = optimizer_class([rref.local_value() for rref in rrefs], *args, **kwargs)

    def step(self, context_id: int) -> None:
        """Step with the gradients that the context holds here."""
        self.optimizer.step_with(get_gradients(context_id))


def _make_local_optimizer(
    optimizer_class: type[Optimizer],
    rrefs: list[rpc.RRef[Tensor]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> rpc.RRef[LocalOptimizer]:
    return rpc.RRef(LocalOptimizer(optimizer_class, rrefs, args, kwargs))


def _step(rref: rpc.RRef[LocalOptimizer], context_id: int) -> None:
    rref.local_value().step(context_id)


def _wait_for_all(futures: list[Future[Any]]) -> list[Any]:
    """Wait for all of them, also after one has failed; return their values, or raise the first
    error.
    """
    values: list[Any] = []
    error: Exception | None = None
    for future in futures:
        try:
            values.append(future.wait())
        except Exception as failed:
            error = error or failed
    if error is not None:
        raise error
    return values


__all__ = ["DistributedOptimizer"]

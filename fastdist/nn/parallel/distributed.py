"""DistributedDataParallel: a name that programs import, and an error where they use it."""

from __future__ import annotations

from typing import Any

from ..module import Module


class DistributedDataParallel(Module):
    """Would add up the gradients of several processes, which needs collectives.

    Raises  NotImplementedError, with what does it here
    """

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "DistributedDataParallel: there are no collectives here yet; distributed.autograd "
            "and distributed.optim.DistributedOptimizer combine the gradients of several "
            "processes. In one process leave the wrapper out"
        )

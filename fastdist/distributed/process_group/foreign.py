"""A group whose collectives are the methods of a registered backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fastdist.core.errors import CollectiveError

from .group import ProcessGroup
from .work import wait_for

_METHODS: Final = (
    "_allgather_base", "_reduce_scatter_base", "allgather", "allreduce", "allreduce_coalesced",
    "alltoall", "alltoall_base", "barrier", "broadcast", "gather", "recv", "recv_anysource",
    "reduce", "reduce_scatter", "scatter", "send",
)  # fmt: skip


class ForeignGroup(ProcessGroup):
    """Forwards each collective to the object that the backend's registered function returned."""

    is_foreign = True
    foreign: Any = None

    def _make_carrier(self, backend: str) -> Any:
        self.foreign = super()._make_carrier(backend)
        return self.foreign

    def is_transport(self) -> bool:
        """Return whether the backend's object is a Transport; if not, it has the methods of a
        ProcessGroup.
        """
        return hasattr(self.foreign, "all_reduce")

    def _end_carrier(self, carrier: Any, error: CollectiveError | None) -> None:
        # A backend may lack any of these methods. PyTorch's backends have shutdown(), not close().
        if error is not None and hasattr(carrier, "abort"):
            carrier.abort(error)
        for name in ("close", "shutdown"):
            if hasattr(carrier, name):
                getattr(carrier, name)()
                break


def _forwarding(name: str) -> Callable[..., Any]:
    def forward(self: ForeignGroup, *args: Any, is_async: bool = True, **named: Any) -> Any:
        work = getattr(self.foreign, name)(*args, **named)
        if not is_async or any(getattr(one, "asyncOp", True) is False for one in args):
            wait_for(work)
        return work

    forward.__name__ = name
    forward.__doc__ = f"Return the Work of `{name}` of the registered backend."
    return forward


for _name in _METHODS:
    setattr(ForeignGroup, _name, _forwarding(_name))

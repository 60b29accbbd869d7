"""Combines several collectives into one message: `_coalescing_manager`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ...tensor.tensor import Tensor
from .together import start_together
from .work import Work
from .world import member_group


class _Noted(NamedTuple):
    """A collective that is deferred to the end of the `with` block."""

    function: Callable[..., Any]
    given: Tensor
    out: Tensor | None
    options: Any


class CoalescingManager:
    """The Works of one `with` block: `with _coalescing_manager(...) as manager`."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def append(self, work: Work | None = None) -> None:
        """Add a Work for wait()."""
        if work is not None:
            self.works.append(work)

    def wait(self) -> None:
        """Wait for all Works of the block."""
        for work in self.works:
            work.wait()


def note(group: Any, function: Any, given: Tensor, out: Tensor | None, options: Any) -> None:
    """Defer a collective to the end of the group's open `with` block."""
    group._coalesced.append(_Noted(function, given, out, options))


@contextmanager
def _coalescing_manager(
    group: Any = None, device: Any = None, async_ops: bool = False
) -> Iterator[CoalescingManager]:
    """Send the collectives that are called in a `with` block as one message, at the block's end.

    Calls of all_reduce, all_gather_into_tensor or reduce_scatter_tensor are deferred. All deferred
    calls of one block must be calls of the same function, with the same dtype and op. Sends and
    receives run when they are called.

    Raises  ValueError if the group is already in such a block; RuntimeError if the block contains
            collectives of several kinds

    Args:
        group: The group; the default group if None.
        device: Ignored; the tensors determine the device.
        async_ops: If true, the end of the block does not wait; call the manager's wait() later.
    """
    found = member_group("_coalescing_manager", group)
    manager = CoalescingManager()
    if found is None:
        yield manager
        return
    if found._coalesced is not None:
        raise ValueError("ProcessGroup has non-empty op list at the start of coalescing")
    kept: list[_Noted] = []
    found._coalesced = kept
    try:
        yield manager
    finally:
        found._coalesced = None
    if kept:
        manager.append(_send(found, kept, async_ops))
    if not async_ops:
        manager.wait()


def _send(group: Any, kept: list[_Noted], is_async: bool) -> Work:
    names = {one.function.__name__ for one in kept}
    if len(names) > 1:
        raise RuntimeError(
            f"Coalescing manager requires all collectives to be the same type, but got mixed "
            f"types: {sorted(names)}"
        )
    options = kept[0].options
    if any(
        getattr(one.options, "reduceOp", None) != getattr(options, "reduceOp", None) for one in kept
    ):
        raise RuntimeError("Coalescing manager: the collectives of a block have one ReduceOp")
    options.asyncOp = is_async
    (name,) = names
    given = [one.given for one in kept]
    if name == "all_reduce":
        work: Work = group.allreduce_coalesced(given, options)
        return work
    outs = [one.out for one in kept if one.out is not None]
    return start_together(group, name, given, outs, options)

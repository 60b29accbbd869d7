"""Options of collectives, for the methods of a ProcessGroup."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from .reductions import ReduceOp

if TYPE_CHECKING:
    from fastdist.distributed.store import Store

# The module in which PyTorch's users find the classes of this file.
_PUBLIC: Final = "fastdist.distributed.distributed_c10d"


class _Options:
    """Attributes with defaults; the constructor accepts each as a keyword."""

    _names: ClassVar[tuple[str, ...]] = ()
    # The timeout of the collective; None for the group's timeout.
    timeout: timedelta | None = None
    # Whether the method returns before the collective ends.
    asyncOp: bool = True

    def __init__(self, **given: Any) -> None:
        for name, value in given.items():
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} has no option {name!r}")
            setattr(self, name, value)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({given})"


def options_for(kind: type[_Options], given: Any, timeout: Any = None, **named: Any) -> Any:
    """Return the options of a call of a ProcessGroup's method, in either of PyTorch's two forms:
    with an options object, or with separate arguments.

    Args:
        kind: The class of the options.
        given: The second argument of the method. If it is an options object, it is returned.
            Otherwise it is the root's rank if `kind` has a `rootRank`, or the ReduceOp, or None.
        timeout: The timeout of the collective: a timedelta, or seconds.
        named: Options by name; None keeps the default.
    """
    if isinstance(given, _Options):
        return given
    options = kind()
    if given is not None:
        setattr(options, "rootRank" if hasattr(kind, "rootRank") else "reduceOp", given)
    if timeout is not None:
        is_number = isinstance(timeout, int | float)
        options.timeout = timedelta(seconds=timeout) if is_number else timeout
    for name, value in named.items():
        if value is not None:
            setattr(options, name, value)
    return options


class AllreduceOptions(_Options):
    """Options of `ProcessGroup.allreduce`; `given` sets the attributes below by name."""

    reduceOp: Any = ReduceOp.SUM
    sparseIndices: Any = None


class AllreduceCoalescedOptions(AllreduceOptions):
    """Options of `ProcessGroup.allreduce_coalesced`; `given` sets inherited attributes by name."""


class ReduceOptions(_Options):
    """Options of `ProcessGroup.reduce`; `given` sets the attributes below by name."""

    reduceOp: Any = ReduceOp.SUM
    rootRank: int = 0
    rootTensor: int = 0


class ReduceScatterOptions(_Options):
    """Options of `ProcessGroup.reduce_scatter`; `given` sets the attributes below by name."""

    reduceOp: Any = ReduceOp.SUM


class BroadcastOptions(_Options):
    """Options of `ProcessGroup.broadcast`; `given` sets the attributes below by name."""

    rootRank: int = 0
    rootTensor: int = 0


class AllgatherOptions(_Options):
    """Options of `ProcessGroup.allgather`; `given` sets inherited attributes by name."""


class AllToAllOptions(_Options):
    """Options of `ProcessGroup.alltoall`; `given` sets inherited attributes by name."""


class GatherOptions(_Options):
    """Options of `ProcessGroup.gather`; `given` sets the attributes below by name."""

    rootRank: int = 0


class ScatterOptions(_Options):
    """Options of `ProcessGroup.scatter`; `given` sets the attributes below by name."""

    rootRank: int = 0


class BarrierOptions(_Options):
    """Options of `ProcessGroup.barrier`; `given` sets the attributes below by name."""

    device_ids: Any = None
    device: Any = None


class DistributedBackendOptions(_Options):
    """The description of a new group, for a function registered with `extended_api=True`."""

    store: Any = None
    group_rank: int = 0
    group_size: int = 1
    group_id: str = ""
    global_ranks_in_group: Any = ()


for _kind in tuple(globals().values()):
    if isinstance(_kind, type) and issubclass(_kind, _Options):
        _kind.__module__ = _PUBLIC


class Place(NamedTuple):
    """This process's rank in a new group, and the group's size, store, name and timeout."""

    # The group's part of the store; None if the members can connect without one.
    store: Store | None
    rank: int
    size: int
    # The members' global ranks.
    ranks: tuple[int, ...]
    name: str
    timeout: timedelta
    world_size: int


# A function that creates a group's transport; for nccl, a NcclCarrier with a transport per GPU.
Connect = Callable[[Place], Any]

"""ProcessGroupGloo: a group of fastdist's own backend that a program creates from a store."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ...core.folded_frames import folds
from ..constants import default_pg_timeout
from .backends import Backend, BackendConfig, Place
from .group import ProcessGroup
from .init import checked_timeout

if TYPE_CHECKING:
    from fastdist.distributed.store import Store


class GlooDevice:
    """A network address for gloo; it is accepted but not used.

    The members of a group use the addresses from their rendezvous.
    """

    def __init__(self, hostname: str = "", interface: str = "") -> None:
        self.hostname, self.interface = hostname, interface

    def __repr__(self) -> str:
        return f"GlooDevice(hostname={self.hostname!r}, interface={self.interface!r})"


class GlooOptions:
    """Options of a ProcessGroupGloo; `_timeout` is used, `_devices` and `_threads` are ignored."""

    backend = Backend.GLOO

    def __init__(self, timeout: timedelta | float = default_pg_timeout) -> None:
        self._timeout = timeout
        self._threads = 2
        self._devices: list[Any] = []
        self.group_name = ""
        self.global_ranks_in_group: list[int] = []

    @property
    def _timeout(self) -> timedelta:
        """The timeout of a collective; a number that is assigned is in seconds."""
        return self._longest

    @_timeout.setter
    def _timeout(self, timeout: timedelta | float) -> None:
        if isinstance(timeout, int | float):
            timeout = timedelta(seconds=timeout)
        self._longest = checked_timeout(timeout)


class ProcessGroupGloo(ProcessGroup):
    """A group of processes that share a store, without `init_process_group`.

    Raises  StoreTimeoutError if some members did not join in time

    Args:
        store: The same store on all members; each group needs a separate store or PrefixStore.
        rank: The rank of this process in the group.
        size: The number of members.
        options: A `ProcessGroupGloo._Options`, or the timeout.
        timeout: The timeout of a collective; 30 minutes by default.

    Example:
        >>> group = dist.ProcessGroupGloo(dist.HashStore(), 0, 1)
        >>> x = torch.ones(2)
        >>> group.allreduce([x]).wait(), group.size()
        (True, 1)
    """

    _Options = Options = GlooOptions
    Device = GlooDevice

    @folds
    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        options: GlooOptions | timedelta | None = None,
        timeout: timedelta | None = None,
    ) -> None:
        super().__init__(store, rank, size)
        if not 0 <= self._rank < self._size:
            raise ValueError(f"rank {rank} is not one of a group of {size} members")
        if isinstance(options, GlooOptions):
            self.options = options
        else:
            self.options = GlooOptions(checked_timeout(timeout if options is None else options))
        ranks = tuple(range(self._size))
        place = Place(store, self._rank, self._size, ranks, "", self.options._timeout, self._size)
        config = BackendConfig(Backend.GLOO)
        self._join(config, Backend.GLOO, place, self.options, desc="")

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the timeout of collectives."""
        super().set_timeout(timeout)
        self.options._timeout = timeout

    @staticmethod
    def create_device(hostname: str = "", interface: str = "", lazy_init: Any = None) -> GlooDevice:
        """Return a device for `_Options._devices`, from a host name or an interface."""
        return GlooDevice(hostname, interface)

    @staticmethod
    def create_default_device(lazy_init: Any = None) -> GlooDevice:
        """Return a device for `_Options._devices`, with this machine's address."""
        return GlooDevice()


ProcessGroupGloo.__module__ = "fastdist.distributed.distributed_c10d"

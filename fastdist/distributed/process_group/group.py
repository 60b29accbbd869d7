"""ProcessGroup: the collectives of one group, as methods."""

from __future__ import annotations

from typing import Any

from ...core.folded_frames import folds
from .methods.gathers import Gathers
from .methods.roots import Roots
from .methods.sums import Sums
from .options import BarrierOptions, options_for
from .point_to_point import Messages
from .transport import Call, Transport
from .work import Work


class ProcessGroup(Sums, Gathers, Roots, Messages):
    """A group of processes of a job; all members call the collectives in the same order.

    `init_process_group` and `new_group` create groups. The methods have PyTorch's names and take
    lists; programs usually call the functions of `fastdist.distributed`.

    Threads: any; collectives of one group run one at a time, sends and receives run in parallel.
    """

    @folds
    def barrier(self, opts: Any = None, timeout: Any = None) -> Work:
        """Wait until all members have called barrier().

        Raises  TypeError, ValueError or RuntimeError if an argument is wrong, before anything is
                sent; CollectiveError if a member is lost, did not call in time or called another
                collective: from wait() if opts.asyncOp is True, the default

        Args:
            opts: BarrierOptions; None: its defaults.
            timeout: The longest time, a timedelta or seconds; None: the group's timeout.

        Returns:
            A Work; wait() returns when all members have called (immediately if not opts.asyncOp).

        Example:
            >>> dist.group.WORLD.barrier().wait()
            True
        """
        opts = options_for(BarrierOptions, opts, timeout)

        def act(transport: Transport, call: Call) -> None:
            transport.barrier(call)

        return self._run("barrier", "", act, [], opts)

    @folds
    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """Wait until all members have called this; the error on rank 0 names missing members.

        Raises  CollectiveError on rank 0, if members did not call in time, and on other members, if
                rank 0 reported that, or did not call

        Args:
            timeout: The longest wait, a timedelta or seconds; None: the group's timeout.
            wait_all_ranks: Whether the error names all missing members, and not only the first.
        """
        from .arrivals import wait_for_members

        wait_for_members(self, timeout, wait_all_ranks)


ProcessGroup.__module__ = "fastdist.distributed.distributed_c10d"

"""Members of a group as threads of one process: they are cheap, and the test controls them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from fastdist.distributed.links import LinksTransport, connect
from fastdist.distributed.process_group.transport import Call
from fastdist.distributed.store import HashStore

DEADLINE_S = 20.0
# The machine of each member, as a letter: one machine for all, two machines, or one per member.
TOPOLOGIES = {"one machine": "aaaa", "two machines": "abab", "four machines": "abcd"}


class Member:
    """One member: its transport, and calls numbered as a group numbers them."""

    def __init__(self, transport: LinksTransport) -> None:
        self.transport = transport
        self.rank, self.size = transport.rank, transport.size
        self.sequence = 0

    def call(self, name: str = "call", agreed: str = "", timeout_s: float = DEADLINE_S) -> Call:
        """Return the next call of the group."""
        self.sequence += 1
        line = f"program{self.rank}.py:{self.sequence}"
        return Call(self.sequence, name, agreed, line, time.monotonic() + timeout_s)

    def message(self, sequence: int = 0, agreed: str = "", timeout_s: float = DEADLINE_S) -> Call:
        """Return a call of send or recv."""
        line = f"program{self.rank}.py:1"
        return Call(sequence, "send", agreed, line, time.monotonic() + timeout_s)


def together(
    machines: Sequence[str], function: Callable[[Member], Any], **options: Any
) -> list[Any]:
    """Run `function` in one thread per member, on the given machines; return the results.

    If members raise exceptions, the exception of the lowest rank is raised here.
    """
    store, size = HashStore(), len(machines)
    results: list[Any] = [None] * size
    errors: list[BaseException | None] = [None] * size

    def run(rank: int) -> None:
        try:
            transport = connect(store, rank, size, DEADLINE_S, machine=machines[rank], **options)
            try:
                results[rank] = function(Member(transport))
            except BaseException as error:
                transport.abort(RuntimeError(f"the test failed in member {rank}: {error!r}"))
                raise
            finally:
                transport.close()
        except BaseException as error:
            errors[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        if error is not None:
            raise error
    return results


def staying(size: int, function: Callable[[Member], Any]) -> Callable[[Member], Any]:
    """Return `function` with a wait after it: no member leaves before all members have run it."""
    barrier = threading.Barrier(size)

    def run(member: Member) -> Any:
        try:
            return function(member)
        finally:
            barrier.wait(DEADLINE_S)

    return run

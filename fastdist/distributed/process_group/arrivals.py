"""monitored_barrier: members report their arrival in the store of the group."""

# Note [A barrier by the store]
# Members report their arrival in the store of the group, and rank 0 writes its answer to the store.
# Messages of the transport are not used: a late message would end the transport permanently, and
# then rank 0 could not wait for the other members.

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from fastdist.core.errors import CollectiveError, StoreError, StoreTimeoutError

from ...core.caller_warning import warn_caller
from .caller import caller_line

if TYPE_CHECKING:
    from fastdist.distributed.store import Store

# How long members wait for rank 0's answer, in addition to two timeouts: see _arrive.
_ANSWER_S: Final = 1.0


def wait_for_members(group: Any, timeout: Any, wait_all_ranks: bool) -> None:
    """Wait until all members of a group have called this function; see monitored_barrier."""
    if timeout is not None and not isinstance(timeout, timedelta):
        warn_caller(
            "Please specify timeout arg as a timedelta. Converting current value of "
            f"{timeout} assuming it represents seconds"
        )
        timeout = timedelta(seconds=timeout)
    if group.size() == 1:
        return
    group = group._for_objects()
    wait = group._timeout if timeout is None else timeout
    # The barrier is not counted as a collective: the count of absent members would stay lower than
    # the count of the others.
    _Check(group, wait, wait_all_ranks).run()


class _Check:
    """One monitored barrier of this member."""

    def __init__(self, group: Any, timeout: timedelta, waits_for_all: bool) -> None:
        store = group.get_group_store()
        if store is None:
            raise CollectiveError(
                "monitored_barrier: the group has no store in which members report their arrival, "
                "as a group of MPI's; call barrier()"
            )
        self._group, self._store = group, _part_of(store)
        self._line, self._seconds = caller_line(), timeout.total_seconds()
        self._waits_for_all = waits_for_all
        self._number = group._next_message(("monitored barrier", None, 0))

    def run(self) -> None:
        """Report the arrival and wait for the answer; on rank 0, wait for all members and
        answer.
        """
        if self._group.rank():
            self._arrive()
        else:
            self._watch()

    def _key(self, who: int | str, number: int | None = None) -> str:
        return f"{self._number if number is None else number}.{who}"

    def _arrive(self) -> None:
        rank = self._group.rank()
        text = (
            f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting "
            "for send/recv from rank 0. Please check rank 0 logs for faulty rank."
        )
        try:
            self._store.set(self._key(rank), self._line)
            # Rank 0 may call up to one timeout after this member, and then waits for one timeout.
            self._store.wait([self._key("answer")], 2 * self._seconds + _ANSWER_S)
            answer = self._store.get(self._key("answer"))
        except StoreError as error:
            raise CollectiveError(text) from error
        if answer:
            raise CollectiveError(f"{text} It reported: {answer.decode(errors='replace')}")

    def _watch(self) -> None:
        keys = {self._key(rank): rank for rank in range(1, self._group.size())}
        late: StoreTimeoutError | None = None
        try:
            self._store.wait(list(keys), self._seconds)
        except StoreTimeoutError as error:
            late = error
        missing = [rank for key, rank in keys.items() if late and not self._store.check([key])]
        text = self._failure(missing) if missing else ""
        self._store.set(self._key("answer"), text)
        for key in keys:
            self._store.delete_key(key)
        if not missing and self._number:
            # All members have read the previous answer by now.
            self._store.delete_key(self._key("answer", self._number - 1))
        if missing:
            raise CollectiveError(f"[Rank 0]: {text}; called at {self._line}") from late

    def _failure(self, missing: list[int]) -> str:
        named = missing if self._waits_for_all else missing[:1]
        who = f"{'Rank' if len(named) == 1 else 'Ranks'} {', '.join(map(str, named))}"
        text = f"{who} failed to pass monitoredBarrier in {self._seconds * 1000:g} ms"
        if not self._seconds:
            return f"Rank 0 timed out in monitoredBarrier after 0 ms: {text}"
        return text


def _part_of(store: Store) -> Store:
    from fastdist.distributed.store import PrefixStore

    return PrefixStore("monitored_barrier", store)

"""A reading of a complete job: its workers, their waits for each other, and stalls."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastdist.core.errors import StoreError, StoreTimeoutError
from fastdist.distributed.store import Store
from fastdist.launch.gathering import MEMBERS, Members, read_members
from fastdist.launch.monitor import ANSWER, ASK, WORKERS_S

# The time in which the launchers must read their workers, plus time for the answer.
_ANSWER_S = WORKERS_S + 1.5
_MEET_S = 2.0
# A wait that is shown as a stall has lasted at least this long.
STALL_S = 5.0
_MOST_NAMED = 8

Worker = dict[str, Any]


@dataclass(frozen=True)
class JobReading:
    """The workers of a job by rank, the nodes that did not answer, and the time."""

    members: Members
    workers: tuple[Worker, ...]
    silent_nodes: tuple[str, ...]
    at: float


class JobReader:
    """Requests readings from the launchers of a job through its store.

    Raises  StoreError if the store is gone; StoreTimeoutError if no launcher has published the
            job's nodes
    """

    def __init__(self, store: Store, token: str) -> None:
        self._store, self._token = store, token
        self._number = 0

    def read(self) -> JobReading:
        """Return a reading; it names the launchers that did not answer in time."""
        store = self._store
        try:
            store.wait([MEMBERS], _MEET_S)
        except StoreTimeoutError as late:
            raise StoreTimeoutError(
                "the store has no record of a job's nodes: `fastdist top` shows jobs that "
                "`fastdist run` started, once its nodes have met"
            ) from late
        members = read_members(store.get(MEMBERS))
        self._number += 1
        asked = f"{self._token}/{self._number}"
        keys = {f"{ANSWER}{asked}/{node}": card for node, card in enumerate(members.cards)}
        store.set(ASK + self._token, str(self._number))
        try:
            store.wait(list(keys), _ANSWER_S)
        except StoreTimeoutError:
            pass  # the reading has the launchers that answered, and names the others
        workers: list[Worker] = []
        silent: list[str] = []
        for key, card in keys.items():
            if not store.check([key]):
                silent.append(card.name)
                continue
            workers += json.loads(store.get(key))
            store.delete_key(key)
        workers.sort(key=lambda worker: worker["rank"])
        return JobReading(members, tuple(workers), tuple(silent), time.monotonic())

    def close(self) -> None:
        """Remove this reader's key from the store."""
        try:
            self._store.delete_key(ASK + self._token)
        except StoreError:
            pass  # the job has ended
        self._store.close()


def waits(reading: JobReading) -> list[str]:
    """Return one sentence for each wait of workers for other workers, collectives first."""
    return [*_collective_waits(reading.workers), *_call_waits(reading.workers)]


def stalls(reading: JobReading) -> list[str]:
    """Return one sentence per node, worker and call that makes no progress, ordered by kind."""
    found = [f"{node}: its launcher does not answer" for node in reading.silent_nodes]
    for worker in reading.workers:
        if "silent" in worker:
            found.append(f"rank {worker['rank']}: {worker['silent']}")
            continue
        rpc = worker["rpc"]
        for peer, how in rpc.get("silent", {}).items():
            found.append(f"{peer}: {how}, as rank {worker['rank']} sees it")
        if rpc.get("given_up"):
            found.append(f"rank {worker['rank']}: the others have given it up")
        for group in worker["groups"]:
            now = group["under_way"]
            if now is not None and now["for_s"] >= STALL_S:
                found.append(
                    f"rank {worker['rank']}: {now['what']} at {now['line']} has lasted "
                    f"{now['for_s']:.0f} s"
                )
    return found


def _collective_waits(workers: Sequence[Worker]) -> list[str]:
    by_group: dict[tuple[str, tuple[int, ...]], list[tuple[int, dict[str, Any]]]] = {}
    for worker in workers:
        for group in worker.get("groups", ()):
            key = group["name"], tuple(group["ranks"])
            by_group.setdefault(key, []).append((worker["rank"], group))
    found = []
    for (_, ranks), parts in by_group.items():
        furthest = max(group["collectives"] for _, group in parts)
        inside = [
            (rank, group)
            for rank, group in parts
            if group["under_way"] is not None and group["collectives"] == furthest
        ]
        there = {rank for rank, _ in inside}
        # A member without a reading may be the one for which the other members wait.
        late = [rank for rank in ranks if rank not in there]
        if inside and late:
            now = max((group["under_way"] for _, group in inside), key=lambda one: one["for_s"])
            found.append(
                f"{_ranks(sorted(there))} in {now['what']} at {now['line']} for "
                f"{now['for_s']:.1f} s: not there yet {_ranks(late)}"
            )
    return found


def _call_waits(workers: Sequence[Worker]) -> list[str]:
    found = []
    for worker in workers:
        rpc = worker.get("rpc") or {}
        for peer, pending in rpc.get("waits_for", {}).items():
            calls = "call" if pending == 1 else "calls"
            found.append(f"{rpc['name']} waits for {peer} ({pending} {calls})")
        if rpc.get("leaves_after"):
            found.append(f"{rpc['name']} waits in shutdown(): {rpc['leaves_after']}")
    return found


def _ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:_MOST_NAMED]))
    more = f" and {len(ranks) - _MOST_NAMED} more" if len(ranks) > _MOST_NAMED else ""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {shown}{more}"

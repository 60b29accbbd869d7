"""Members of one machine: waits for counters while members leave."""

from __future__ import annotations

import mmap
import time
from typing import Any

import pytest

from fastdist.core.errors import CollectiveLostError
from fastdist.distributed.links import futex, segment
from fastdist.distributed.links.alarm import LEFT, Alarm, Waiting
from fastdist.distributed.links.machine import Machine
from fastdist.distributed.links.members import Members, Record
from fastdist.distributed.pipe.ring.spin_policy import SpinPolicy
from fastdist.distributed.process_group.transport import Call


class Words:
    """The words of a segment. When the word `read` is read again, the words in `then` change.

    The first read comes before the wait, and the second one during the wait.
    """

    def __init__(self, words: Any, read: int, then: dict[int, int]) -> None:
        self._words, self._read, self._then = words, read, then
        self._times = 0

    def __getitem__(self, index: int) -> int:
        found: int = self._words[index]
        self._times += index == self._read
        if index == self._read and self._times == 2:
            for place, value in self._then.items():
                self._words[place] = value
        return found

    def __setitem__(self, index: int, value: int) -> None:
        self._words[index] = value


def machine_of_two(then: dict[int, int], monkeypatch: pytest.MonkeyPatch) -> tuple[Machine, Any]:
    """Return the machine of member 0, whose words change as `then` says, and a call's `Waiting`."""
    monkeypatch.setattr(futex, "wait", lambda *_: None)
    memory = segment.Segment(
        mmap.mmap(-1, segment.segment_bytes(2, 2, mmap.PAGESIZE)), 2, 2, mmap.PAGESIZE
    )
    facts: dict[str, Any] = {"group_id": 1, "addresses": {}, "security": "none", "ranks": "0 to 1"}
    records = [
        Record(rank=rank, incarnation=rank, bulk="", tags="", shares_nothing="", **facts)
        for rank in (0, 1)
    ]
    alarm, members = Alarm(), Members(records)
    found = Machine(memory, 0, (0, 1), members, alarm)
    first = memory.first_word(1)
    shifted = {first + word: value for word, value in then.items()}
    found._words = Words(memory.words, first + segment.STAGE, shifted)  # type: ignore[assignment]
    monkeypatch.setattr(SpinPolicy, "look", lambda *_: False)
    call = Call(0, "barrier", "", "program.py:1", time.monotonic() + 5.0)
    return found, Waiting(call, members, alarm, 5.0)


def test_a_member_that_comes_and_then_leaves_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    then = {segment.STAGE: 1, segment.FAILURE: LEFT}
    machine, waiting = machine_of_two(then, monkeypatch)
    machine.meet(waiting)


def test_a_member_that_leaves_and_has_not_come_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, waiting = machine_of_two({segment.FAILURE: LEFT}, monkeypatch)
    with pytest.raises(CollectiveLostError, match=r"rank 1 \(pid .* has left the group"):
        machine.meet(waiting)

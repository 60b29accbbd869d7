"""Two machines that exchange calls and arrays: sums, mismatches, and forged data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fastdist.core.errors import CollectiveError, CollectiveMismatchError, MessageError
from fastdist.distributed.links import bulk, pair, records
from tests.distributed.links.members import Member, together

LARGE = 300_001
seals = pytest.mark.parametrize("seal", [bulk.ENCRYPTED, bulk.AUTHENTICATED, bulk.PLAIN])


def connected(
    monkeypatch: pytest.MonkeyPatch, seal: str, play: Callable[[Member], Any], machines: str = "ab"
) -> list[Any]:
    """Run `play` on members whose machines are already connected."""
    monkeypatch.setattr("fastdist.distributed.links.joining.choose_seal", lambda *_, **__: seal)

    def run(member: Member) -> Any:
        reduce(member, 50_000, "sum")
        return play(member)

    return together(machines, run)


def reduce(member: Member, size: int, op: str) -> np.ndarray[Any, Any]:
    array = np.random.default_rng(member.rank).standard_normal(size).astype("f4")
    member.transport.all_reduce(member.call("all_reduce", f"{size}"), array, op)
    return array


@pytest.mark.one_in(3)
@seals
@pytest.mark.parametrize("machines", ["ab", "abb", "aabb"])
def test_sums_of_all_sizes(monkeypatch: pytest.MonkeyPatch, seal: str, machines: str) -> None:
    def play(member: Member) -> list[bytes]:
        has_pair = member.transport._meeting.between.pair is not None
        assert has_pair == (member.rank in (0, 1) if machines != "aabb" else member.rank in (0, 2))
        found = []
        for size, ops in ((1, ["sum"]), (32_769, ["sum", "max"]), (LARGE, ["sum"])):
            for op in ops:
                array = reduce(member, size, op)
                draws = [
                    np.random.default_rng(one).standard_normal(size).astype("f4")
                    for one in range(member.size)
                ]
                wanted = np.max(draws, 0) if op == "max" else np.sum(draws, 0, dtype="f8")
                np.testing.assert_allclose(array, wanted, rtol=1e-4, atol=1e-5)
                found.append(array.tobytes())
        return found

    first, *others = connected(monkeypatch, seal, play, machines)
    assert all(one == first for one in others)


@pytest.mark.parametrize("what", ["reduce", "reduce_scatter"])
def test_each_gets_what_it_is_to_get(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    def play(member: Member) -> None:
        draws = [np.arange(2 * 40_000) * (one + 1) for one in range(2)]
        mine = draws[member.rank].copy().reshape(2, -1)
        if what == "reduce":
            member.transport.reduce(member.call(what), mine, "sum", 1)
            assert (mine.ravel() == (draws[0] + draws[1] if member.rank else draws[0])).all()
        else:
            out = np.zeros(40_000, mine.dtype)
            member.transport.reduce_scatter(member.call(what), out, mine, "sum")
            assert (out == (draws[0] + draws[1]).reshape(2, -1)[member.rank]).all()

    connected(monkeypatch, bulk.AUTHENTICATED, play)


class Queue:
    """A sender's queue of records; the test decides when they are sent."""

    def __init__(self, *, is_local: bool) -> None:
        self.is_local = is_local
        self.num_queued = 0
        self.offsets: list[int] = []

    def enqueue(self, turn: int, number: int, data: Any, offset: int) -> None:
        assert (turn, number) == (5, pair._PIECE)
        self.offsets.append(offset)
        self.num_queued += 1

    def send_some(self, waiting: Any) -> bool:
        return False


def test_leaders_on_one_machine_send_in_turns_and_others_as_fast_as_they_can() -> None:
    array, step = np.zeros(300_000, "f4"), records.PIECE_BYTES // 4
    for is_local in (True, False):
        queue = Queue(is_local=is_local)
        outgoing = pair._Outgoing(queue, 5, array)  # type: ignore[arg-type]
        patience: Any = None
        queue.num_queued = 1  # the call, which is sent with the first piece
        for _ in range(2):
            outgoing.send_some(patience)
            assert queue.offsets == [0]
        assert outgoing.num_left == 0
        queue.num_queued = 0
        assert outgoing.num_left == step
        outgoing.send_some(patience, step - 1)
        assert queue.offsets == ([0] if is_local else [0, 4 * step])
        outgoing.send_some(patience, step)
        assert queue.offsets == [0, 4 * step]
        outgoing.send_some(patience, array.size)
        assert queue.offsets == [0, 4 * step]  # the last piece has not been sent
        queue.num_queued = 0
        outgoing.send_some(patience, array.size)
        assert queue.offsets == [0, 4 * step, 8 * step]
        assert outgoing.is_leaving
        queue.num_queued = 0
        assert not outgoing.is_leaving


def _barrier(member: Member) -> None:
    member.transport.barrier(member.call("barrier"))


def _sum_of(array: np.ndarray[Any, Any], op: str = "sum") -> Callable[[Member], Any]:
    call = f"{array.size}"
    return lambda member: member.transport.all_reduce(member.call("all_reduce", call), array, op)


def _repeatedly(times: int, function: Callable[[Member], Any], member: Member) -> None:
    for _ in range(times):
        function(member)


OTHER_CALLS: dict[str, Callable[[Member], Any]] = {
    "barrier": _barrier,
    "small": lambda member: reduce(member, 5, "sum"),
    "other size": lambda member: reduce(member, LARGE + 1, "sum"),
    "other reduction": lambda member: reduce(member, LARGE, "max"),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("other", OTHER_CALLS)
@pytest.mark.parametrize("machines", ["ab", "abb"])
def test_other_calls_are_errors_on_both_and_end_nothing(
    monkeypatch: pytest.MonkeyPatch, other: str, machines: str
) -> None:
    def play(member: Member) -> None:
        for _ in range(2):
            array = np.ones(LARGE, "f4")
            with pytest.raises(CollectiveMismatchError, match="called differently"):
                (OTHER_CALLS[other] if member.rank else _sum_of(array))(member)
            assert (array == 1).all()
            array = np.full(LARGE, member.rank + 1.0)
            member.transport.all_reduce(member.call("all_reduce"), array, "sum")
            assert (array == sum(range(1, len(machines) + 1))).all()

    connected(monkeypatch, bulk.AUTHENTICATED, play, machines)


FORGERIES: dict[str, Callable[[int, int, Any, int], tuple[int, int, Any, int]]] = {
    "turn": lambda turn, number, data, offset: (turn + 1, number, data, offset),
    "kind": lambda turn, number, data, offset: (turn, 9, data, offset),
    "place": lambda turn, number, data, offset: (turn, number, data, offset + 8),
    "nothing": lambda turn, number, data, offset: (turn, number, data[:0], offset),
    "too much": lambda turn, number, data, offset: (turn, number, np.resize(data, 9 << 20), offset),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_records_that_belong_nowhere_end_the_group(
    monkeypatch: pytest.MonkeyPatch, forgery: str
) -> None:
    enqueue = records.Records.enqueue

    def forging(
        self: Any, turn: int, number: int, data: Any, offset: int, *, is_joined: bool = False
    ) -> None:
        if self.next == 0 and number == pair._PIECE and offset:
            turn, number, data, offset = FORGERIES[forgery](turn, number, data, offset)
        enqueue(self, turn, number, data, offset, is_joined=is_joined)

    def play(member: Member) -> str:
        if member.rank:
            monkeypatch.setattr(records.Records, "enqueue", forging)
        array = np.ones(LARGE)
        with pytest.raises((CollectiveError, MessageError)) as raised:
            _repeatedly(50, _sum_of(array, "min"), member)
        assert (array == 1).all()
        return str(raised.value)

    texts = connected(monkeypatch, bulk.PLAIN, play)
    assert any("a record of kind" in text or "a piece of" in text for text in texts), texts


def _errors_of_sums(
    monkeypatch: pytest.MonkeyPatch, seal: str, tampering: Callable[[Any, Any], bool]
) -> list[Exception]:
    """Return each member's error when one member tampers with messages; arrays must not change."""

    def play(member: Member) -> Exception:
        if member.rank:
            monkeypatch.setattr(records.Records, "send_some", tampering)
        array = np.full(LARGE, 2.0)
        with pytest.raises((CollectiveError, MessageError)) as raised:
            _repeatedly(50, _sum_of(array, "max"), member)
        assert (array == 2.0).all()
        return raised.value

    errors: list[Exception] = connected(monkeypatch, seal, play)
    return errors


@pytest.mark.parametrize("place", [2, -1], ids=["what all agree on", "the line"])
def test_a_call_that_was_tampered_with_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    sends = records.Records.send_some

    def tampering(self: Any, waiting: Any) -> bool:
        for views, _ in self._queue:
            if self.next == 0 and len(views) == 2 and len(views[1]) < 1000:
                changed = bytearray(views[1])
                changed[place] ^= 1
                views[1] = memoryview(changed)
        return sends(self, waiting)

    errors = _errors_of_sums(monkeypatch, bulk.AUTHENTICATED, tampering)
    assert not any(isinstance(one, CollectiveMismatchError) for one in errors)
    texts = [str(one) for one in errors]
    # The other member detects an error first if the tampering member stops sending.
    expected = "not what its sender sealed", "a record of kind"
    assert any(one in text for text in texts for one in expected[: 1 + (place > 0)]), texts


@pytest.mark.parametrize("seal", [bulk.ENCRYPTED, bulk.AUTHENTICATED])
def test_an_array_that_was_tampered_with_is_not_used(
    monkeypatch: pytest.MonkeyPatch, seal: str
) -> None:
    sends = records.Records.send_some

    def tampering(self: Any, waiting: Any) -> bool:
        for views, _ in self._queue:
            if self.next == 0 and len(views[-2 if len(views) > 1 else -1]) > 100_000:
                changed = bytearray(views[-2])
                changed[-1] ^= 1
                views[-2] = memoryview(changed)
        return sends(self, waiting)

    texts = [str(one) for one in _errors_of_sums(monkeypatch, seal, tampering)]
    assert any("not what its sender sealed" in text for text in texts), texts

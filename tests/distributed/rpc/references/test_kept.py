"""The owner and the sender of a reference, after events in any order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fastdist.core.errors import RpcTimeoutError, WorkerLostError
from fastdist.distributed.rpc.handlers import Reply
from fastdist.distributed.rpc.message.message import Message
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.distributed.rpc.references.forks import Forks
from fastdist.distributed.rpc.references.kept import Event, KeptValue, State
from fastdist.distributed.rpc.references.owned import OwnedValues
from fastdist.distributed.rpc.workers.worker import Worker
from tests.distributed.lives import Life

MAKER, HOLDER = 1, 2
VALUE, FORK = MAKER << 48 | 1, MAKER << 48 | 2


def owner_of(maker: Life) -> OwnedValues:
    """Return the values of a worker whose group has one other member."""
    workers: Any = SimpleNamespace(
        me=SimpleNamespace(name="w0"), find=lambda rank: maker, in_words=lambda rank: "worker 'w1'"
    )
    return OwnedValues(workers)


def live(order: Sequence[str]) -> None:
    """Apply the events of a value in the given order, and check the invariants after each one."""
    maker: Any = Life(MAKER)
    owner, holder = owner_of(maker), Life(HOLDER)
    owned = owner.hear_of(VALUE, for_local=True)
    steps: dict[str, Callable[[], object]] = {
        "called": lambda: owner.begin(VALUE, maker),
        "made": lambda: owner.complete(owned, "value"),
        "used": lambda: owner.add_user(owned, FORK, holder),  # type: ignore[arg-type]
        "use ended": lambda: owner.end_uses([(VALUE, FORK)]),
        "dropped here": lambda: owner.local_ended(None, [owned]),
        "given up": lambda: owner.fail_unmade([VALUE], maker),
        "maker lost": lambda: owner.maker_lost(maker),
    }
    past: list[str] = []
    for what in order:
        steps[what]()
        past.append(what)
        is_used = "used" in past and "use ended" not in past
        is_here = "dropped here" not in past or is_used or not owned.future.done()
        # A fork whose use begins after the value was dropped is not counted.
        was_gone = owned.state is State.GONE
        assert (owner.values() == [owned]) is (is_here and not was_gone), past
        assert was_gone or FORK not in owned.users or is_used, past
    error = owned.future.peek_error()
    if order.index("given up") < min(order.index("called"), order.index("maker lost")):
        assert isinstance(error, RpcTimeoutError), order
    elif order.index("maker lost") < order.index("made"):
        assert isinstance(error, WorkerLostError), order
    else:
        assert error is None and owned.future.value() == "value", order
    assert owner.values() == [], order
    owned.future.was_read()


@pytest.mark.one_in(4)
def test_an_owner_keeps_a_value_as_long_as_it_is_used_and_lets_nobody_wait_in_vain() -> None:
    seen = 0
    for order in itertools.permutations(
        ("called", "made", "used", "use ended", "dropped here", "given up", "maker lost")
    ):
        if order.index("called") < order.index("made"):
            live(order)
            seen += 1
    assert seen == 2520


def test_an_error_takes_the_place_of_a_value_at_most_once() -> None:
    for order in itertools.permutations([*Event, *Event], 4):
        value = KeptValue()
        failures = [value.step(event) for event in order]
        assert sum(failures) <= 1, order
        is_there = {Event.MADE, Event.MAKER_LOST} & {*order} or order[0] is Event.GIVEN_UP
        assert value.state is State.THERE or not is_there, order
        assert value.leave() is (value.state is State.GONE)


def travel(order: Sequence[str], *, in_answer: bool) -> None:
    """Apply the events that end a fork in the given order: only the first one counts."""
    parent: Any = SimpleNamespace(_id=VALUE, _owner=Life(0))
    notes: list[tuple[Any, Any, Any]] = []
    ended: list[Any] = []
    sender: Any = SimpleNamespace(enqueue=lambda *note: notes.append(note))
    owned: Any = SimpleNamespace(end_uses=ended.extend, fail_unmade=lambda made, by: None)
    forks, receiver = Forks(sender, owned, lambda fork_ids: []), cast(Worker, Life(HOLDER))
    kind = MessageType.PYTHON_RET if in_answer else MessageType.PYTHON_CALL
    message = Message(kind, 7, peer=receiver)
    forks.leave(FORK, parent, message)
    given_up = Message(0, peer=receiver, metadata={"call": (7,), "fork": (), "made": ()})
    reply = Reply([], {"held": ()})
    steps: dict[str, Callable[[], object]] = {
        "accepted": lambda: forks.accepted([FORK]),
        "undone": message.undo_packing,
        "answer given up": lambda: forks.given_up(given_up),
        "not held": lambda: forks._look_at_held(receiver, [FORK], reply),
        "receiver lost": lambda: forks.worker_lost(receiver),
        "owner lost": lambda: forks.worker_lost(parent._owner),
    }
    for what in order:
        steps[what]()
        for send, addressee, item in notes:
            send(addressee, [item])
        notes.clear()
    # A call that times out cancels the forks in its answer, but not the forks in its request.
    first = next(one for one in order if one != "answer given up" or in_answer)
    will_not_come = first in ("undone", "answer given up", "not held")
    assert (len(forks), ended) == (0, [(VALUE, FORK)] * will_not_come), (in_answer, order)


def test_the_first_end_of_the_way_of_a_fork_counts_whatever_follows() -> None:
    ways = ("accepted", "undone", "answer given up", "not held", "receiver lost", "owner lost")
    for order in itertools.permutations(ways):
        travel(order, in_answer=False)
        travel(order, in_answer=True)

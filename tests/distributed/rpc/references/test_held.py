"""The holder of a reference notifies the owner and the sender correctly, in any order of events."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytest

from fastdist.distributed.rpc.references.held import NOBODY, Do, Event, HeldReference, State

_PARENT = 3
_OF_CREATION = (Event.KNOWN, Event.UNSENT, Event.DROPPED, Event.GIVEN_UP)
_OF_NOTICE = (Event.TELLS, Event.KNOWN, Event.UNKNOWN, Event.DROPPED, Event.GIVEN_UP, Event.REFUSED)
# (initial state, sender, possible events)
_BEGINNINGS = (
    (State.CREATING, NOBODY, _OF_CREATION),
    (State.ARRIVED, _PARENT, _OF_NOTICE),
    (State.COUNTED, NOBODY, (Event.DROPPED, Event.GIVEN_UP, Event.REFUSED)),
)
_OF_OWNER = {Event.KNOWN, Event.UNKNOWN, Event.UNSENT}


def lives(start: State, parent: int, events: tuple[Event, ...]) -> Any:
    """Yield every possible sequence of events, each event with the actions that it requires."""
    for order in itertools.permutations(events):
        held = HeldReference(cast(Any, None), 1, 2, start, parent=parent)
        life = []
        for event in order:
            if not _can_happen(held, event, [past for past, _ in life]):
                continue
            life.append((event, held.step(event)))
        yield held, life


def _can_happen(held: HeldReference, event: Event, past: list[Event]) -> bool:
    if event in _OF_OWNER and (_OF_OWNER & {*past} or held.state is State.ARRIVED):
        return False  # at most one answer, and only after a question
    if event is Event.TELLS:
        return held.state is State.ARRIVED
    if event is Event.REFUSED:
        return not past  # only the first event can be a rejection
    return not (event is Event.UNSENT and past)


@pytest.mark.parametrize(("start", "parent", "events"), _BEGINNINGS)
def test_owner_and_sender_hear_once_of_each_end(
    start: State, parent: int, events: tuple[Event, ...]
) -> None:
    seen = 0
    for held, life in lives(start, parent, events):
        seen += 1
        happened = [event for event, _ in life]
        due = [do for _, actions in life for do in actions]
        assert max(map(due.count, Do), default=0) <= 1, life
        is_over = {Event.DROPPED, Event.GIVEN_UP, Event.UNSENT, Event.REFUSED} & {*happened}
        is_answered = _OF_OWNER & {*happened} or start is State.COUNTED
        if is_over and (is_answered or held.state is not State.TELLING):
            is_waiting = held.state is State.CREATING and Event.DROPPED in happened
            assert held.state is State.ENDED or is_waiting, life
        # The owner is notified of the end exactly if it may know of the reference's beginning.
        may_know = start is not State.ARRIVED or Event.TELLS in happened
        if held.state is State.ENDED:
            is_never = happened[0] in (Event.UNSENT, Event.REFUSED) or not may_know
            assert (Do.END in due) is not is_never, life
            assert held.creation is None
        # The sender gets no release while the owner may not have counted the reference.
        if Do.ACCEPT in due:
            at = next(event for event, actions in life if Do.ACCEPT in actions)
            assert at in (Event.KNOWN, Event.DROPPED, Event.GIVEN_UP), life
            assert at is not Event.DROPPED or Event.TELLS not in happened, life
        assert parent != NOBODY or Do.ACCEPT not in due
    assert seen > 1


def test_the_end_waits_for_the_answer_of_the_owner() -> None:
    held = HeldReference(cast(Any, None), 1, 2, State.ARRIVED, parent=_PARENT)
    assert held.step(Event.TELLS) == (Do.TELL,)
    assert held.step(Event.DROPPED) == ()
    assert held.state is State.TELLING
    assert held.step(Event.KNOWN) == (Do.ACCEPT, Do.END)
    assert held.state is State.ENDED


def test_a_reference_that_was_dropped_on_arrival_is_not_told_of() -> None:
    held = HeldReference(cast(Any, None), 1, 2, State.ARRIVED, parent=_PARENT)
    assert held.step(Event.DROPPED) == (Do.ACCEPT,)
    assert held.step(Event.DROPPED) == ()


def test_the_sender_keeps_its_own_where_the_owner_was_not_reached() -> None:
    held = HeldReference(cast(Any, None), 1, 2, State.ARRIVED, parent=_PARENT)
    held.step(Event.TELLS)
    assert held.step(Event.UNKNOWN) == ()
    assert held.step(Event.DROPPED) == (Do.END,)


def test_what_cannot_happen_is_refused() -> None:
    held = HeldReference(cast(Any, None), 1, 2, State.COUNTED)
    with pytest.raises(KeyError):
        held.step(Event.TELLS)

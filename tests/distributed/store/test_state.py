"""The store's dictionary without I/O: answers, timeouts, and no state that is left behind."""

from __future__ import annotations

import math

import pytest

from fastdist.distributed.store.requests import Answer, Op, Request, Status
from fastdist.distributed.store.state import StoreState


def ask(
    state: StoreState, op: Op, *arguments: bytes, owner: str = "me", deadline: float = math.inf
) -> list[Answer]:
    return state.submit(Request(op, list(arguments), owner, deadline), now=0.0)


def test_a_parked_request_is_answered_by_the_one_that_sets_its_key() -> None:
    state = StoreState()
    assert ask(state, Op.GET, b"k", owner="early") == []
    assert ask(state, Op.SET, b"k", b"v", owner="late") == [
        Answer("late", Status.OK, []),
        Answer("early", Status.OK, [b"v"]),
    ]


def test_expire_answers_only_what_is_due_and_tells_when_to_come_again() -> None:
    state = StoreState()
    ask(state, Op.WAIT, b"a", owner="first", deadline=1.0)
    ask(state, Op.WAIT, b"b", owner="second", deadline=2.0)
    assert state.next_deadline() == 1.0
    assert state.expire(1.5) == [Answer("first", Status.TIMED_OUT, [b"a"])]
    assert state.next_deadline() == 2.0


def test_an_answered_request_does_not_expire() -> None:
    state = StoreState()
    ask(state, Op.WAIT, b"a", deadline=1.0)
    ask(state, Op.SET, b"a", b"")
    assert state.next_deadline() is None
    assert state.expire(5.0) == []


@pytest.mark.parametrize("op", [Op.GET, Op.WAIT])
def test_nothing_is_kept_of_requests_that_are_over(op: Op) -> None:
    state = StoreState()
    ask(state, op, b"a", b"b", b"a", deadline=1.0)
    ask(state, op, b"a", b"b", deadline=math.inf)
    state.expire(2.0)
    ask(state, Op.SET, b"a", b"", b"b", b"")
    assert state._parked == {}


def test_a_member_that_gave_up_waiting_is_not_told_twice() -> None:
    state = StoreState()
    ask(state, Op.JOIN, b"g", b"0", b"2", b"v", owner="early", deadline=1.0)
    assert state.expire(1.0) == [Answer("early", Status.TIMED_OUT, [b"1"])]
    answers = ask(state, Op.JOIN, b"g", b"1", b"2", b"w", owner="late")
    assert answers == [Answer("late", Status.OK, [b"v", b"w"])]


def test_only_members_that_still_wait_are_told_at_the_end_who_is_missing() -> None:
    state = StoreState()
    ask(state, Op.JOIN, b"g", b"0", b"3", b"v", owner="early", deadline=1.0)
    ask(state, Op.JOIN, b"g", b"1", b"3", b"w", owner="waits", deadline=9.0)
    ask(state, Op.GET, b"key", owner="another", deadline=9.0)
    state.expire(1.0)
    assert state.farewell() == [Answer("waits", Status.ENDED, [b"2"])]


def test_a_watcher_that_went_away_is_told_no_more() -> None:
    state = StoreState()
    ask(state, Op.WATCH, b"", owner="watcher")
    state.unwatch(state.watchers())
    assert ask(state, Op.SET, b"k", b"v") == [Answer("me", Status.OK, [])]


def test_requests_of_nobody_change_the_dictionary_without_answers() -> None:
    state = StoreState()
    for op, arguments in (
        (Op.SET, [b"k", b"1"]),
        (Op.ADD, [b"k", b"2"]),
        (Op.ADD, [b"k", b"no number"]),
        (Op.JOIN, [b"g", b"0", b"2", b"v"]),
    ):
        assert state.submit(Request(op, arguments, None, math.inf), 0.0) == []
    assert ask(state, Op.GET, b"k") == [Answer("me", Status.OK, [b"3"])]
    assert ask(state, Op.JOIN, b"g", b"1", b"2", b"w") == [Answer("me", Status.OK, [b"v", b"w"])]


def test_anonymous_members_take_the_free_places_and_no_more() -> None:
    state = StoreState()
    ask(state, Op.JOIN, b"g", b"1", b"2", b"b")
    assert ask(state, Op.JOIN, b"g", b"-1", b"2", b"a")[0].frames == [b"a", b"b"]
    (answer,) = ask(state, Op.JOIN, b"g", b"-1", b"2", b"c")
    assert answer.status is Status.REFUSED and b"all 2 places are taken" in answer.frames[0]


@pytest.mark.parametrize("world_size", [b"1", b"3"])
def test_a_member_without_a_rank_does_not_end_a_group_of_another_size(world_size: bytes) -> None:
    state = StoreState()
    ask(state, Op.JOIN, b"g", b"-1", b"2", b"a", owner="waits")
    (refused,) = ask(state, Op.JOIN, b"g", b"-1", world_size, b"b")
    assert (refused.owner, refused.status) == ("me", Status.REFUSED)
    assert refused.frames[0].decode() == (
        f"join 'g': a member says the world has {world_size.decode()} members, but rank 0 says 2; "
        "start all with the same world size"
    )
    assert [one.frames for one in ask(state, Op.JOIN, b"g", b"-1", b"2", b"b")] == [
        [b"a", b"b"]
    ] * 2


@pytest.mark.parametrize(
    ("op", "arguments", "why"),
    [
        (Op.ADD, [b"k"], b"add: 1 arguments, expected 2"),
        (Op.NUM_KEYS, [b"k"], b"num_keys: 1 arguments, expected 0"),
        (Op.JOIN, [b"g", b"first", b"2", b"v"], b"b'first' is not a number"),
        (Op.ENDED, [b"0", b"9" * 5000], b"b'" + b"9" * 40 + b"' is not a number"),
        (Op.ENDED, [b"2", b"2"], b"ended: rank 2 of 2 does not exist"),
        (Op.ENDED, [b"-1", b"2"], b"ended: rank -1 of 2 does not exist"),
        (Op.ENDED, [b"0", b"65537"], b"ended: rank 0 of 65537 does not exist"),
    ],
)
def test_arguments_that_none_of_ours_would_give_are_named(
    op: Op, arguments: list[bytes], why: bytes
) -> None:
    assert ask(StoreState(), op, *arguments) == [Answer("me", Status.REFUSED, [why])]


def test_a_mistake_is_logged_once_for_each_place_that_raises(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_down(state: StoreState, request: Request, now: float) -> list[Answer]:
        if request.arguments[0] == b"a":
            raise KeyError(request.arguments[0])
        raise RuntimeError("\udc80 cannot be encoded")

    monkeypatch.setitem(StoreState._handlers, Op.GET, break_down)
    state = StoreState()
    for key in (b"a", b"b") * 50:
        (answer,) = ask(state, Op.GET, key)
        assert answer.status is Status.REFUSED
    told = [one.getMessage() for one in caplog.records]
    assert ["in break_down" in text and text.isascii() for text in told] == [True, True]


def test_a_mistake_at_its_end_is_told_to_who_waited_and_keeps_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state, missing = StoreState(), StoreState._missing
    ask(state, Op.JOIN, b"g", b"0", b"2", b"v", owner="joins", deadline=1.0)
    ask(state, Op.WAIT, b"a", owner="waits", deadline=1.0)

    def break_down(state: StoreState, request: Request) -> list[bytes]:
        if request.op is Op.JOIN:
            raise KeyError("nobody thought of this")
        return missing(state, request)

    monkeypatch.setattr(StoreState, "_missing", break_down)
    answers = state.expire(2.0)
    assert [(one.owner, one.status) for one in answers] == [
        ("joins", Status.REFUSED),
        ("waits", Status.TIMED_OUT),
    ]
    assert state._parked == {} and state._groups[b"g"].parked == []


def test_who_waits_for_a_rank_that_has_ended_is_told_and_so_is_who_comes_after() -> None:
    state = StoreState()
    ask(state, Op.JOIN, b"g", b"0", b"3", b"v", owner="waits", deadline=9.0)
    ended, told = ask(state, Op.ENDED, b"2", b"3")
    assert ended == Answer("me", Status.OK, [])
    assert (told.owner, told.status) == ("waits", Status.REFUSED)
    assert b"rank 2 of 3 ended without joining" in told.frames[0]
    assert ask(state, Op.JOIN, b"g", b"1", b"3", b"w", owner="late") == [
        Answer("late", Status.REFUSED, told.frames)
    ]
    (other,) = ask(state, Op.JOIN, b"h", b"0", b"3", b"v")
    assert other.status is Status.REFUSED
    assert state.expire(10.0) == []


def test_a_rank_that_has_ended_is_missed_by_no_group_of_another_size_or_that_it_had_joined() -> (
    None
):
    state = StoreState()
    ask(state, Op.JOIN, b"g", b"1", b"2", b"w", deadline=0.0)
    ask(state, Op.JOIN, b"h", b"0", b"3", b"v", owner="waits", deadline=9.0)
    assert ask(state, Op.ENDED, b"1", b"2") == [Answer("me", Status.OK, [])]
    assert ask(state, Op.JOIN, b"g", b"0", b"2", b"v")[0].frames == [b"v", b"w"]


def test_who_has_ended_may_come_in_the_next_round() -> None:
    state = StoreState()
    ask(state, Op.ENDED, b"1", b"2")
    assert ask(state, Op.ROUND) == [Answer("me", Status.OK, [])]
    ask(state, Op.JOIN, b"g", b"0", b"2", b"v", owner="waits", deadline=9.0)
    assert [a.status for a in ask(state, Op.JOIN, b"g", b"1", b"2", b"w")] == [Status.OK] * 2

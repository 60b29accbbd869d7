"""A worker remembers just enough about received calls that no call runs twice."""

from __future__ import annotations

from typing import Any

import pytest

from fastdist.distributed.rpc.message.limits import Limits
from fastdist.distributed.rpc.workers import callers
from fastdist.distributed.rpc.workers.callers import MAX_ANSWERS, MAX_BYTES, MAX_IDS, CallerLane

SHARED, OWN = 0, 3


def make_lane(number: int = SHARED) -> CallerLane:
    lane = CallerLane(None, number)  # type: ignore[arg-type]
    lane.route = b"first"
    return lane


def request() -> Any:
    return object()


def answer(lane: CallerLane, call_id: int, *frames: bytes) -> bytes:
    lane.accept_request(call_id, request())
    return lane.answered(call_id, frames, sum(len(frame) for frame in frames))


def test_a_call_that_runs_or_was_answered_does_not_come_again() -> None:
    lane = make_lane()
    assert lane.accept_request(1, request())
    assert not lane.accept_request(1, request())
    lane.answered(1, [b"one"], 3)
    assert not lane.accept_request(1, request())


def test_look_for_tells_what_runs_from_what_was_answered_and_what_never_came() -> None:
    lane = make_lane()
    lane.accept_request(1, request())
    answer(lane, 2, b"two")
    result = lane.reconcile([1, 2, 3])
    assert result.answers == [(b"two",)]
    assert result.never_received == [3]
    assert result.answered_before == []


def test_an_answer_leaves_by_the_connection_that_the_lane_has_by_then() -> None:
    lane = make_lane()
    lane.accept_request(1, request())
    lane.route = b"second"
    assert lane.answered(1, [b"one"], 3) == b"second"


def test_the_next_answer_on_a_lane_of_ones_own_ends_the_care_for_the_last() -> None:
    lane = make_lane(OWN)
    answer(lane, 1, b"one")
    answer(lane, 2, b"two")
    assert len(lane._answers) == 1
    assert lane.reconcile([2]).answers == [(b"two",)]


def test_a_late_answer_that_nobody_waits_for_does_not_drive_out_the_one_to_a_later_call() -> None:
    lane = make_lane(OWN)
    lane.accept_request(1, request())
    answer(lane, 2, b"two")
    lane.answered(1, [b"one"], 3)
    assert lane.reconcile([2]).answers == [(b"two",)]
    assert lane.running(1) is None


def test_answers_are_kept_up_to_a_count_and_the_forgotten_are_not_taken_for_new() -> None:
    lane = make_lane()
    for call_id in range(MAX_ANSWERS + 5):
        answer(lane, call_id, b"answer")
    result = lane.reconcile([4, 5, MAX_ANSWERS + 5])
    assert result.answered_before == [4]
    assert len(result.answers) == 1
    assert result.never_received == [MAX_ANSWERS + 5]


def test_answers_are_kept_up_to_a_size() -> None:
    lane = make_lane()
    for call_id in range(10):
        answer(lane, call_id, bytes(MAX_BYTES // 4))
    assert lane._bytes <= MAX_BYTES
    assert len(lane.reconcile(range(10)).answers) == 4


def test_what_others_may_change_and_what_is_too_large_is_not_kept() -> None:
    for number in (SHARED, OWN):
        lane = make_lane(number)
        answer(lane, 1, b"head", b"a tensor that still has an owner")
        assert lane.reconcile([1]).answered_before == [1]
        answer(lane, 2, bytes(MAX_BYTES + 1))
        assert lane.reconcile([2]).answered_before == [2]
        assert lane._bytes == 0


def test_a_call_that_was_given_up_is_over_and_does_not_come_again() -> None:
    for number in (SHARED, OWN):
        lane = make_lane(number)
        lane.accept_request(1, request())
        lane.ended_unanswered(1)
        assert lane.running(1) is None
        assert not lane.accept_request(1, request())


def test_a_call_does_not_come_again_on_a_lane_of_ones_own_when_others_have_come_since() -> None:
    lane = make_lane(OWN)
    for call_id in (1, 2, 3):
        answer(lane, call_id, b"answer")
    assert not any(lane.accept_request(call_id, request()) for call_id in (1, 2, 3))
    assert lane.accept_request(4, request())


def make_full_lane(number: int = SHARED) -> CallerLane:
    lane = make_lane(number)
    lane.answered(0, (), 300 << 20)
    return lane


def test_calls_are_held_while_too_many_answers_are_not_read_and_until_half_of_them_are() -> None:
    lane, first, second = make_full_lane(), request(), request()
    assert lane.hold(first) and lane.acknowledge(60 << 20) == []
    # New calls would fit again, but calls that wait already must run first.
    answer(lane, 1, b"small")
    assert lane.hold(second)
    assert lane.acknowledge(120 << 20) == [first, second]
    assert not lane.hold(first) and lane.num_held() == 0


def test_nothing_is_held_any_more_once_the_connection_is_another_or_the_caller_has_gone() -> None:
    lane, held = make_full_lane(), request()
    assert lane.hold(held)
    assert lane.rebind(b"second") == [held]
    assert not lane.hold(held)
    gone = make_full_lane()
    assert gone.hold(held)
    assert gone.release_held() == [held]
    gone.answered(1, (), 300 << 20)
    assert not gone.hold(held)


def test_a_caller_that_blocks_is_never_held_up_by_answers() -> None:
    assert not make_full_lane(OWN).hold(request())


def test_answers_that_were_read_are_not_kept_and_their_calls_do_not_run_again() -> None:
    lane = make_lane()
    for call_id in range(100):
        answer(lane, call_id, bytes(10_000))
    lane.forget_below(100, ())
    assert lane._bytes == 0 and not lane._answers and not lane._over
    assert not any(lane.accept_request(call_id, request()) for call_id in range(100))
    assert lane.reconcile([0, 99, 100]).never_received == [100]
    assert lane.accept_request(100, request())


def test_an_answer_is_kept_until_its_own_call_has_ended_whatever_ended_behind_it() -> None:
    lane = make_lane()
    for call_id in range(10):
        answer(lane, call_id, b"%d" % call_id)
    lane.accept_request(10, request())
    lane.forget_below(12, (3, 10, 11))
    result = lane.reconcile(range(12))
    assert result.answers == [(b"3",)]  # the caller may not have received this answer yet
    assert result.answered_before == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert result.never_received == [11]
    assert not lane.accept_request(3, request()) and not lane.accept_request(10, request())
    # The caller has numbered call 11, but has not sent it yet.
    assert lane.accept_request(11, request())
    lane.answered(11, (b"11",), 2)
    assert lane.reconcile([11]).answers == [(b"11",)] and not lane.accept_request(11, request())
    lane.forget_below(13, ())
    assert lane.reconcile([3, 11]).answered_before == [3, 11]


@pytest.mark.parametrize("floor", [0, 5, 20])
def test_an_acknowledgement_that_comes_twice_or_late_opens_nothing_again(floor: int) -> None:
    lane = make_lane()
    for call_id in range(20):
        answer(lane, call_id, b"answer")
    lane.forget_below(20, ())
    lane.forget_below(floor, range(20))
    assert not any(lane.accept_request(call_id, request()) for call_id in range(20))
    assert not lane._answers


def test_what_a_caller_has_given_up_is_not_kept_when_it_is_answered() -> None:
    lane = make_lane()
    lane.accept_request(1, request())
    lane.forget_below(5, ())
    lane.answered(1, (bytes(1000),), 1000)
    assert lane._bytes == 0 and lane.reconcile([1]).answered_before == [1]
    assert not lane.accept_request(1, request())


def test_a_large_answer_on_a_lane_of_ones_own_goes_when_it_is_acknowledged() -> None:
    lane = make_lane(OWN)
    answer(lane, 7, bytes(1 << 20))
    assert lane._bytes == 1 << 20
    lane.forget_below(8, ())
    assert lane._bytes == 0 and lane.reconcile([7]).answered_before == [7]
    assert not lane.accept_request(7, request()) and lane.accept_request(8, request())


def test_an_answer_that_cannot_be_kept_ends_the_care_for_the_one_before() -> None:
    lane = make_lane(OWN)
    answer(lane, 1, bytes(1000))
    answer(lane, 2, b"head", b"a tensor")
    assert lane._bytes == 0 and not lane._answers


def test_who_acknowledges_nothing_costs_a_bounded_memory_of_ids_and_runs_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Limits().outstanding_calls < MAX_IDS
    monkeypatch.setattr(callers, "MAX_IDS", 2000)
    lane = make_lane()
    for call_id in range(10_000):
        answer(lane, call_id, b"answer")
    assert len(lane._over) <= 2000 and len(lane._answers) <= MAX_ANSWERS
    assert not any(lane.accept_request(call_id, request()) for call_id in range(0, 10_000, 7))

"""The state of a peer after events, without threads, sockets or clocks."""

from __future__ import annotations

import random

import pytest

from fastdist.distributed.rpc.workers.session import (
    Action,
    Die,
    Do,
    Event,
    LivenessTimeouts,
    Session,
    State,
    Times,
    Unresponsive,
)

_ATTEMPTS = (Event.REFUSED, Event.UNREACHED, Event.REACHED)
TIMEOUTS = LivenessTimeouts(suspect_s=3, frozen_s=10, grace_s=1, notice_s=2, join_s=10)


def alive(now: float = 0.0) -> Session:
    peer = Session(now, TIMEOUTS)
    assert peer.step(Event.CONNECTED, now) == []
    return peer


def test_a_peer_joins_by_its_first_handshake() -> None:
    peer = Session(0.0, TIMEOUTS)
    assert peer.state is State.JOINING
    peer.step(Event.REACHED, 0.1)
    assert peer.state is State.JOINING
    peer.step(Event.CONNECTED, 0.2)
    assert peer.state is State.ALIVE
    assert peer.next_look() is None


def test_a_process_that_ended_is_dead_at_once() -> None:
    (action,) = alive().step(Event.PROCESS_ENDED, 5.0)
    assert isinstance(action, Die) and not action.left and "process has ended" in action.reason


def test_a_goodbye_is_an_end_without_loss_once_the_last_answers_are_read() -> None:
    peer = alive()
    assert peer.step(Event.LEFT, 5.0) == [Do.SAY_FAREWELL] and peer.next_look() == 6.0
    assert peer.state is State.LEAVING
    assert peer.step(Event.PROCESS_ENDED, 5.1) == [] and peer.next_look() == 6.0
    (action,) = peer.step(Event.DISCONNECTED, 5.2)
    assert isinstance(action, Die) and action.left


def test_a_goodbye_of_a_process_that_ends_without_a_shutdown_is_a_loss_with_its_reason() -> None:
    peer, why = alive(), "it ended without rpc.shutdown(), by ValueError: mine"
    assert peer.step(Event.LEFT, 5.0, why, is_waited_for=True) == []
    peer.step(Event.LEFT, 5.0)
    peer.step(Event.DISCONNECTED, 5.1, is_waited_for=True)
    assert peer.has_left_or_died and peer.why_lost == ""
    assert peer.step(Event.TICK, 5.2) == [Die(why)]
    assert peer.why_lost == why and peer.is_surely_over


def test_a_goodbye_whose_connection_never_ends_is_an_end_all_the_same() -> None:
    peer = alive()
    peer.step(Event.LEFT, 5.0)
    assert peer.next_look() == 6.0
    (action,) = peer.step(Event.TICK, 6.0)
    assert isinstance(action, Die) and action.left


def test_a_goodbye_of_a_peer_without_a_connection_is_an_end_at_once() -> None:
    peer = alive()
    peer.step(Event.DISCONNECTED, 4.9)
    *_, action = peer.step(Event.LEFT, 5.0)
    assert isinstance(action, Die) and action.left


def test_one_that_leaves_is_told_so_when_all_was_read_and_not_much_later_in_any_case() -> None:
    peer, late = alive(), alive()
    assert peer.step(Event.LEFT, 5.0, is_waited_for=True) == [] and peer.next_look() == 5.005
    assert peer.step(Event.TICK, 5.005, is_waited_for=True) == [] and peer.next_look() == 5.01
    assert peer.step(Event.TICK, 5.01) == [Do.SAY_FAREWELL] and peer.next_look() == 6.0
    assert late.step(Event.LEFT, 5.0, is_waited_for=True) == [] and late.next_look() == 5.005
    assert (
        late.step(Event.TICK, 5.25, is_waited_for=True) == [Do.SAY_FAREWELL]
        and late.next_look() == 6.0
    )


def test_what_came_by_another_lane_is_read_a_moment_after_the_end_of_the_first() -> None:
    peer, unread = alive(), alive()
    for one in (peer, unread):
        one.step(Event.LEFT, 5.0, is_waited_for=True)
        assert (
            one.step(Event.DISCONNECTED, 5.1, is_waited_for=True) == [] and one.next_look() == 5.35
        )
        assert one.has_left_or_died and one.state is State.SETTLING
        assert (
            one.step(Event.PROCESS_ENDED, 5.2, is_waited_for=True) == [] and one.next_look() == 5.35
        )
    assert peer.step(Event.TICK, 5.3) == [Die("it has shut down", left=True)]
    assert unread.step(Event.TICK, 5.35, is_waited_for=True) == [Die("it has shut down", left=True)]


@pytest.mark.parametrize("is_leaving", [False, True])
def test_a_life_that_another_follows_is_over_at_once(is_leaving: bool) -> None:
    peer = alive()
    if is_leaving:
        peer.step(Event.LEFT, 5.0, is_waited_for=True)
    (action,) = peer.step(Event.REPLACED, 5.1, is_waited_for=True)
    assert action == Die("a new process of its rank has joined", left=is_leaving)
    assert not peer.is_surely_over


def test_a_call_that_was_asked_about_since_needs_no_other_greeting() -> None:
    peer = alive()
    assert peer.must_greet_again(3)
    assert (peer.next_query([3, 7]), peer.next_query([])) == (1, 2)
    assert not peer.must_greet_again(7) and peer.must_greet_again(8)


def test_the_answer_to_the_last_question_counts_once() -> None:
    peer = alive()
    serials = [peer.next_query([3]), peer.next_query([3])]
    assert [peer.accepts_result(serial) for serial in (*serials, serials[1])] == [
        *(False, True),
        False,
    ]
    assert peer.accepts_result(peer.next_query([3]))


def test_a_first_attempt_that_failed_is_followed_by_a_recovery() -> None:
    peer = Session(0.0, TIMEOUTS)
    peer.step(Event.DISCONNECTED, 5.0)
    assert peer.step(Event.CONNECTED, 6.0) == [Do.RECOVER]
    assert peer.state is State.ALIVE


def test_a_frozen_peer_is_suspect_and_then_dead_ten_seconds_after_its_last_sign_of_life() -> None:
    peer = alive()
    # The peer freezes at 100; unanswered heartbeats break the connection two seconds later.
    assert peer.step(Event.DISCONNECTED, 102.0) == [] and peer.next_look() == 103.0
    assert peer.step(Event.REFUSED, 102.1) == [] and peer.next_look() == 103.0
    peer.step(Event.REACHED, 102.2)
    assert Do.TELL_SILENCE in peer.step(Event.TICK, 103.0)
    assert peer.state is State.SUSPECT
    assert peer.step(Event.DISCONNECTED, 107.0) == [] and peer.next_look() == 110.0
    assert peer.step(Event.TICK, 109.9) == [] and peer.next_look() == 110.0
    (action,) = peer.step(Event.TICK, 110.0)
    assert isinstance(action, Die) and "10.0 s" in action.reason


def test_a_connection_that_comes_back_is_a_recovery_and_not_a_death() -> None:
    peer = alive()
    peer.step(Event.DISCONNECTED, 5.0)
    peer.step(Event.REFUSED, 5.1)
    peer.step(Event.REACHED, 5.2)
    assert peer.step(Event.CONNECTED, 5.3) == [Do.RECOVER]
    assert peer.step(Event.TICK, 100.0) == []
    assert peer.state is State.ALIVE


def test_what_was_not_heard_while_this_process_stood_still_is_no_silence_of_a_peer() -> None:
    peer = alive()
    # This process woke up at 102.0, a moment before it noticed the broken connection.
    peer.step(Event.DISCONNECTED, 102.1, woke_at=lambda: 102.0)
    assert _deaths(peer.step(Event.TICK, 111.9)) == []
    assert len(_deaths(peer.step(Event.TICK, 112.0))) == 1


def test_a_peer_that_falls_silent_after_this_process_woke_is_dead_as_soon_as_any() -> None:
    peer = alive()
    peer.step(Event.DISCONNECTED, 105.0, woke_at=lambda: 102.0)
    assert len(_deaths(peer.step(Event.TICK, 113.0))) == 1


def _deaths(actions: list[Action]) -> list[Die]:
    return [action for action in actions if isinstance(action, Die)]


def test_a_peer_that_refuses_connections_is_dead_after_the_grace() -> None:
    peer = alive()
    peer.step(Event.DISCONNECTED, 5.0)
    peer.step(Event.REFUSED, 5.0)
    peer.step(Event.REFUSED, 5.5)
    (action,) = peer.step(Event.REFUSED, 6.0)
    assert isinstance(action, Die) and "nobody listens" in action.reason


def test_an_address_that_refuses_is_dead_for_that_even_where_silence_has_no_more_time() -> None:
    peer = Session(0.0, LivenessTimeouts(frozen_s=10, grace_s=10, notice_s=2))
    peer.step(Event.CONNECTED, 0.0)
    peer.step(Event.DISCONNECTED, 5.0)
    peer.step(Event.REFUSED, 5.5)
    (action,) = peer.step(Event.TICK, 13.0)
    assert action == Die("nobody listens at its address any more")


def test_a_peer_that_cannot_be_reached_has_as_long_as_a_frozen_one_and_is_not_said_gone() -> None:
    peer = alive()
    peer.step(Event.DISCONNECTED, 102.0)
    for tenths in range(1025, 1100, 5):
        peer.step(Event.RETRIED, tenths / 10)
        peer.step(Event.UNREACHED, tenths / 10 + 0.1, "No route to host")
    assert peer.state is State.SUSPECT
    (action,) = peer.step(Event.TICK, 110.0)
    assert isinstance(action, Die)
    assert action.reason == (
        "no sign of life for 10.0 s: it is frozen or cut off "
        "(no connection to its address: No route to host); FASTDIST_FROZEN_S or the option "
        "frozen_s, here 10, says how long that may last"
    )


@pytest.mark.parametrize("event", [Event.UNREACHED, Event.REACHED])
def test_what_refused_once_and_does_not_any_more_is_not_counted_as_gone(event: Event) -> None:
    peer = alive()
    peer.step(Event.DISCONNECTED, 5.0)
    peer.step(Event.REFUSED, 5.1)
    peer.step(event, 5.9, "No route to host")
    peer.step(Event.TICK, 7.0)
    assert peer.state is State.SUSPECT or peer.state is State.ALIVE
    assert peer.step(Event.CONNECTED, 9.0) == [Do.RECOVER]


def test_a_connection_is_tried_for_only_while_nothing_takes_one() -> None:
    peer = alive()
    assert not peer.is_out_of_reach
    peer.step(Event.RETRIED, 5.0)
    assert peer.is_out_of_reach
    peer.step(Event.REACHED, 5.1)
    assert not peer.is_out_of_reach
    peer.step(Event.UNREACHED, 6.0, "no answer")
    assert peer.is_out_of_reach
    peer.step(Event.CONNECTED, 6.1)
    assert not peer.is_out_of_reach


@pytest.mark.parametrize("event", [Event.REFUSED, Event.REACHED])
def test_a_connection_is_broken_though_only_the_attempt_at_the_next_one_tells(event: Event) -> None:
    peer = alive()
    peer.step(event, 5.0)
    if event is Event.REFUSED:
        (action,) = peer.step(Event.REFUSED, 6.0)
        assert isinstance(action, Die) and "nobody listens" in action.reason
    else:
        (action,) = peer.step(Event.TICK, 13.0)
        assert isinstance(action, Die) and "frozen or cut off" in action.reason


def test_a_peer_that_never_answers_is_dead_after_the_time_to_join() -> None:
    peer = Session(0.0, TIMEOUTS)
    assert peer.next_look() == 10.0
    assert peer.step(Event.TICK, 9.9) == [] and peer.next_look() == 10.0
    (action,) = peer.step(Event.TICK, 10.0)
    assert isinstance(action, Die)


def test_a_rejection_tells_the_reason() -> None:
    (action,) = alive().step(Event.REJECTED, 1.0, "it was declared lost")
    assert action == Die("it was declared lost")


def test_a_peer_that_lives_and_does_not_answer_is_told_of_once_and_does_not_die() -> None:
    peer = alive()
    assert peer.step(Event.ASKED, 5.0) == [] and peer.next_look() == 65.0
    assert peer.step(Event.ASKED, 10.0) == [] and peer.next_look() == 65.0
    assert peer.step(Event.TICK, 65.0) == [Unresponsive(60.0)]
    assert peer.step(Event.ASKED, 70.0) == []
    assert peer.state is State.ALIVE and peer.is_unresponsive
    assert peer.next_look() is None
    assert peer.step(Event.ANSWERED, 80.0) == []
    assert not peer.is_unresponsive
    assert peer.step(Event.ASKED, 85.0) == [] and peer.next_look() == 145.0


def test_a_question_ends_with_its_connection() -> None:
    peer = alive()
    peer.step(Event.ASKED, 5.0)
    peer.step(Event.DISCONNECTED, 6.0)
    peer.step(Event.ASKED, 6.5)
    assert peer.step(Event.CONNECTED, 7.0) == [Do.RECOVER]
    assert peer.next_look() is None


@pytest.mark.parametrize("is_leaving", [False, True])
def test_a_peer_of_a_worker_that_is_out_is_at_an_end_at_once_and_not_lost(is_leaving: bool) -> None:
    peer = alive()
    if is_leaving:
        peer.step(Event.LEFT, 1.0)
    assert peer.step(Event.FENCED, 1.0) == [Die("")]
    assert peer.state is State.DEAD and peer.why_lost == ""


def test_why_a_peer_was_lost_is_known_as_long_as_it_is_dead() -> None:
    left, ended = alive(), alive()
    left.step(Event.LEFT, 1.0)
    left.step(Event.DISCONNECTED, 1.0)
    ended.step(Event.PROCESS_ENDED, 1.0)
    assert (left.why_lost, ended.why_lost) == ("", "its process has ended")


@pytest.mark.parametrize("event", list(Event))
def test_dead_is_final(event: Event) -> None:
    peer = alive()
    peer.step(Event.PROCESS_ENDED, 1.0)
    assert peer.step(event, 2.0) == []
    assert peer.state is State.DEAD and peer.next_look() is None


@pytest.mark.one_in(4)
def test_any_order_of_events_dies_once_and_never_forgets_to_look_again() -> None:
    rng = random.Random(11)
    for _ in range(2000):
        peer, now, deaths = Session(0.0, TIMEOUTS), 0.0, 0
        for _ in range(40):
            now += rng.choice((0.01, 0.3, 1.0, 4.0))
            actions = peer.step(rng.choice(list(Event)), now)
            deaths += sum(isinstance(action, Die) for action in actions)
            # An agent that checks the session next at `next_look` must detect the death, so
            # `next_look` must return a time.
            if peer.state not in (State.ALIVE, State.DEAD):
                assert peer.next_look() is not None
        assert deaths <= 1
        assert (deaths == 1) == (peer.state is State.DEAD)


def test_silence_is_always_followed_by_death_within_its_time() -> None:
    rng = random.Random(12)
    for _ in range(500):
        peer = alive()
        began = now = 50.0
        peer.step(Event.DISCONNECTED, now)
        while peer.state is not State.DEAD:
            look = peer.next_look()
            assert look is not None
            if rng.random() < 0.5:
                now = min(look, now + rng.random())
                event = rng.choice((Event.DISCONNECTED, Event.RETRIED, *_ATTEMPTS))
                peer.step(event, now, "no answer")
            else:
                now = max(now, look)
                peer.step(Event.TICK, now)
        assert now - began <= 10.0


def test_what_nobody_has_chosen_is_longer_on_a_crowded_machine() -> None:
    usual = Times(is_chosen=False).towards(crowding=1.0, is_near=True)
    assert usual == LivenessTimeouts()
    crowded = Times(is_chosen=False).towards(crowding=8.0, is_near=True)
    assert (crowded.frozen_s, crowded.join_s, crowded.grace_s) == (80.0, 80.0, 8.0)
    assert (crowded.beats, crowded.notice_s) == (16, 16.5)
    far = Times(is_chosen=False).towards(crowding=2.0, is_near=False)
    assert (far.frozen_s, far.grace_s) == (20.0, 20.0)


def test_what_was_chosen_is_kept_on_a_crowded_machine() -> None:
    chosen = Times(frozen_s=10.0, grace_s=0.5).towards(crowding=8.0, is_near=True)
    assert (chosen.frozen_s, chosen.grace_s) == (10.0, 0.5)
    # Detecting a silence takes less than half of `frozen_s`, so that time is left to connect again.
    assert (chosen.beats, chosen.notice_s, chosen.join_s) == (2, 2.5, 80.0)
    assert Times(frozen_s=60.0).towards(crowding=8.0, is_near=True).beats == 15


def test_an_address_may_refuse_for_longer_than_silence_may_last_where_somebody_chose_that() -> None:
    peer = Session(0.0, LivenessTimeouts(frozen_s=10, grace_s=30, notice_s=2))
    peer.step(Event.CONNECTED, 0.0)
    peer.step(Event.DISCONNECTED, 5.0)
    peer.step(Event.REFUSED, 5.5)
    assert _deaths(peer.step(Event.TICK, 35.4)) == []
    look = peer.next_look()
    assert look == 35.5
    assert peer.step(Event.TICK, look) == [Die("nobody listens at its address any more")]
    silent = Session(0.0, LivenessTimeouts(frozen_s=10, grace_s=30, notice_s=2))
    silent.step(Event.CONNECTED, 0.0)
    silent.step(Event.DISCONNECTED, 5.0)
    assert len(_deaths(silent.step(Event.TICK, 13.0))) == 1


def test_on_a_crowded_machine_a_frozen_peer_is_lost_in_the_longer_time_and_a_dead_one_at_once() -> (
    None
):
    crowded = Times(is_chosen=False).towards(crowding=8.0, is_near=True)
    frozen, dead = Session(0.0, crowded), Session(0.0, crowded)
    for peer in (frozen, dead):
        peer.step(Event.CONNECTED, 0.0)
    # The connection is closed after 16 heartbeats without an answer.
    frozen.step(Event.DISCONNECTED, 116.5)
    assert _deaths(frozen.step(Event.TICK, 179.9)) == []
    (death,) = _deaths(frozen.step(Event.TICK, 180.0))
    assert death.reason.startswith("no sign of life for 80.0 s") and "FROZEN_S" in death.reason
    assert len(_deaths(dead.step(Event.PROCESS_ENDED, 100.0))) == 1

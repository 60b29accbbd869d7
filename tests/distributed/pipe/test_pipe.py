"""When the peer of a pipe is lost, every wait ends, and each waiting call gets its own error."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from fastdist.core.errors import WorkerLostError
from fastdist.distributed.pipe.pipe import Pipe
from fastdist.distributed.sockets import Doorbell


class Lane:
    """A lane that records that it was closed."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self, linger_s: float = 0.0) -> None:
        self.is_closed = True


class Call:
    error: Exception | None = None

    def fail(self, error: Exception) -> None:
        self.error = error


def make_pipe() -> Pipe:
    return Pipe(lambda bell, number: Lane(), lambda number: [b"hello"], lambda: None)  # type: ignore[return-value,arg-type]


@pytest.mark.parametrize(
    "use", [Pipe.borrow_lane, Pipe.shared, lambda pipe: pipe.add_pending(1, Call())]
)
def test_a_pipe_in_error_raises_a_fresh_copy_each_time(use: Callable[[Pipe], Any]) -> None:
    pipe, error = make_pipe(), WorkerLostError("w1 was lost", may_have_run=False)
    pipe.break_off(error)
    raised = []
    for _ in range(2):
        with pytest.raises(WorkerLostError, match="w1 was lost") as caught:
            use(pipe)
        assert not caught.value.may_have_run
        raised.append(caught.value)
    assert raised[0] is not raised[1]
    # The pipe's own error does not keep callers' frames alive.
    assert error.__traceback__ is None


def test_breaking_off_ends_calls_and_lanes_once() -> None:
    pipe, call = make_pipe(), Call()
    free, out = pipe.borrow_lane(), pipe.borrow_lane()
    assert free is not None and out is not None
    pipe.return_lane(free)
    pipe.add_pending(1, call)
    assert pipe.is_waited_for()
    error = WorkerLostError("w1 was lost")
    assert pipe.break_off(error) == 1
    assert pipe.break_off(WorkerLostError("again")) == 0
    assert call.error is error and pipe.error is error
    assert free.lane.is_closed and not out.lane.is_closed  # type: ignore[attr-defined]
    pipe.return_lane(out)
    assert out.lane.is_closed  # type: ignore[attr-defined]
    assert not pipe.is_waited_for()


def test_lanes_have_numbers_of_their_own_and_use_those_of_closed_ones_again() -> None:
    there: dict[int, Lane] = {}

    def connect(bell: Any, number: int) -> Any:
        assert number not in there or there[number].is_closed
        there[number] = Lane()
        return there[number]

    pipe = Pipe(connect, lambda number: [b"hello"], lambda: None, max_own_lanes=3)
    for _ in range(100):
        lanes = [pipe.borrow_lane() for _ in range(3)]
        assert pipe.borrow_lane() is None
        for own, broken in zip(lanes, (True, False, True)):
            assert own is not None
            pipe.return_lane(own, broken=broken)
    assert set(there) == {1, 2, 3}
    pipe.break_off(WorkerLostError("over"))
    assert all(lane.is_closed for lane in there.values())


def test_a_peer_that_is_lost_while_its_shared_lane_is_made_leaves_its_bell_open_until_then() -> (
    None
):
    bells: list[int] = []

    def connect(bell: Doorbell, number: int) -> Lane:
        pipe.break_off(WorkerLostError("w1 was lost"))
        bells.append(bell.fileno())
        return Lane()

    pipe = Pipe(connect, lambda number: [b"hello"], lambda: None)  # type: ignore[return-value,arg-type]
    with pytest.raises(AttributeError, match="try_send"):  # raised by the fake lane after the loss
        pipe.shared()
    assert bells[0] >= 0
    assert not pipe.is_waited_for() and pipe._closed.fileno() < 0


def test_the_calls_that_are_open_are_those_that_have_an_id_and_have_not_ended() -> None:
    pipe, ids = make_pipe(), iter(range(10, 100, 10))
    assert pipe.open_calls(9) == (0, [])
    first, second, third = (pipe.open_call(lambda: next(ids)) for _ in range(3))
    assert (first, second, third) == (10, 20, 30)
    for call_id in (10, 30):
        pipe.add_pending(call_id, Call())
    assert pipe.open_calls(9) == (31, [10, 20, 30])
    pipe.take_pending(30)
    pipe.close_call(20)  # as if the call's message could not be packed
    pipe.close_call(20)
    assert pipe.open_calls(9) == (31, [10])
    assert pipe.take_pending(20) is None and pipe.take_pending(10) is not None
    assert pipe.open_calls(9) == (31, [])


def test_of_many_open_calls_the_lowest_are_listed_and_none_above_is_taken_for_over() -> None:
    pipe, ids = make_pipe(), iter(range(100))
    for _ in range(100):
        pipe.open_call(lambda: next(ids))
    assert pipe.open_calls(8) == (8, [*range(8)])


def test_a_call_that_comes_to_a_pipe_in_error_is_not_open() -> None:
    pipe = make_pipe()
    pipe.break_off(WorkerLostError("w1 was lost"))
    call_id = pipe.open_call(lambda: 7)
    with pytest.raises(WorkerLostError):
        pipe.add_pending(call_id, Call())
    assert pipe.open_calls(9) == (8, [])


class LaneWithNews(Lane):
    """A lane that may have received messages."""

    def __init__(self, came: list[Any]) -> None:
        super().__init__()
        self.came = came

    def try_receive(self) -> Any:
        frames = self.came.pop(0) if self.came else None
        if isinstance(frames, BaseException):
            raise frames
        if callable(frames):
            frames()
            return self.try_receive()
        return frames


def pipe_with(news: list[list[Any]], most: int = 3) -> tuple[Pipe, list[int]]:
    """Return a pipe with free lanes 1, 2, ..., each with messages, and the list of lanes made."""
    made: list[int] = []

    def connect(bell: Any, number: int) -> Any:
        made.append(number)
        return LaneWithNews(news[number - 1] if number <= len(news) else [])

    pipe = Pipe(connect, lambda number: [b"hello"], lambda: None, max_own_lanes=most)
    lanes = [pipe.borrow_lane() for _ in news]
    for own in reversed(lanes):
        assert own is not None
        pipe.return_lane(own)
    return pipe, made


def test_a_lane_that_fails_while_late_answers_are_looked_for_is_closed_and_no_other_is_lost() -> (
    None
):
    pipe, made = pipe_with([[[b"1"]], [OSError(24, "Too many open files")], [[b"3"], [b"3 too"]]])
    assert sorted(pipe.drain_idle_lanes()) == [[b"1"], [b"3"], [b"3 too"]]
    assert not pipe.is_waited_for()
    lanes = [pipe.borrow_lane() for _ in range(3)]
    assert None not in lanes and pipe.borrow_lane() is None
    assert made == [1, 2, 3, 2]  # the failed lane was made again


def test_a_caller_that_comes_during_a_look_opens_no_connection_for_it() -> None:
    found: list[Any] = []
    news: list[Any] = []
    pipe, made = pipe_with([news])
    caller = threading.Thread(target=lambda: found.append(pipe.borrow_lane()))
    is_asking = threading.Event()
    wait_for = pipe._look_ended.wait_for

    def ask(*arguments: Any) -> Any:
        is_asking.set()  # the wait releases the pipe's lock
        return wait_for(arguments[0], 20)

    pipe._look_ended.wait_for = ask  # type: ignore[method-assign]

    def look() -> None:
        assert not pipe.is_waited_for()
        caller.start()
        assert is_asking.wait(20)

    news += [look, [b"late"]]
    assert pipe.drain_idle_lanes() == [[b"late"]]
    caller.join(20)
    assert found[0] is not None and made == [1]
    assert pipe.is_waited_for()

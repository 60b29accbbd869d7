"""A pipe whose peer is lost: every wait ends, and everybody gets an error of his own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fastdist.core.errors import WorkerLostError
from fastdist.distributed.pipe.pipe import Pipe
from fastdist.distributed.sockets import Doorbell


class Lane:
    """A lane that notes its end."""

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
    "use", [Pipe.check_out, Pipe.shared, lambda pipe: pipe.add_pending(1, Call())]
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
    # The pipe's own holds no frames of those who asked.
    assert error.__traceback__ is None


def test_breaking_off_ends_calls_and_lanes_once() -> None:
    pipe, call = make_pipe(), Call()
    free, out = pipe.check_out(), pipe.check_out()
    assert free is not None and out is not None
    pipe.check_in(free)
    pipe.add_pending(1, call)
    assert pipe.is_waited_for()
    error = WorkerLostError("w1 was lost")
    assert pipe.break_off(error) == 1
    assert pipe.break_off(WorkerLostError("again")) == 0
    assert call.error is error and pipe.error is error
    assert free.lane.is_closed and not out.lane.is_closed  # type: ignore[attr-defined]
    pipe.check_in(out)
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
        lanes = [pipe.check_out() for _ in range(3)]
        assert pipe.check_out() is None
        for own, broken in zip(lanes, (True, False, True)):
            assert own is not None
            pipe.check_in(own, broken=broken)
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
    with pytest.raises(AttributeError, match="try_send"):  # so far it has come
        pipe.shared()
    assert bells[0] >= 0
    assert not pipe.is_waited_for() and pipe._closed.fileno() < 0

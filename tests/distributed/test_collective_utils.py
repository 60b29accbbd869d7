"""Functions that run on one member and pass the result or error to all members; error logs."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from fastdist import distributed as dist
from fastdist.distributed import c10d_logger, collective_utils
from fastdist.distributed.collective_utils import all_gather, broadcast
from tests.distributed.process_group.thread_members import run_members


def fail() -> Any:
    raise KeyError("missing")


def test_a_function_of_one_member_runs_once_and_all_get_its_result() -> None:
    calls: list[int] = []

    def member(rank: int) -> Any:
        def compute() -> list[int]:
            calls.append(rank)
            return [rank, 7]

        group = dist.new_group([1, 2])
        inside = broadcast(compute, rank=2, pg=group) if rank else None
        return (
            broadcast(compute, rank=1, pg=dist.group.WORLD),
            broadcast(5 + rank, pg=dist.group.WORLD),
            inside,
        )

    assert run_members(3, member) == [
        ([1, 7], 5, None), ([1, 7], 5, [2, 7]), ([1, 7], 5, [2, 7]),
    ]  # fmt: skip
    assert sorted(calls) == [1, 2]
    assert broadcast(lambda: 3) == 3


def test_a_failure_of_one_member_is_an_error_on_all() -> None:
    def member(rank: int) -> Any:
        with pytest.raises(RuntimeError) as raised:
            broadcast(fail, rank=1, stage_name="load", pg=dist.group.WORLD)
        assert isinstance(raised.value.__cause__, KeyError)
        with pytest.raises(RuntimeError) as silent:
            broadcast(None, success=False, pg=dist.group.WORLD)
        with pytest.raises(RuntimeError) as gathered:
            all_gather(fail if rank else 3, pg=dist.group.WORLD)
        (text, errors) = gathered.value.args
        return str(raised.value), str(silent.value), text, [(who, str(why)) for who, why in errors]

    expected = (
        "Rank 1 failed: stage load: exception 'missing'", "Rank 0 failed", "", [(1, "'missing'")],
    )  # fmt: skip
    assert run_members(2, member) == [expected, expected]
    with pytest.raises(AssertionError, match="None if not successful"):
        broadcast(3, success=False)
    with pytest.raises(RuntimeError, match="all_gather failed with exception 'missing'"):
        all_gather(fail)


def test_values_of_all_members_come_in_the_order_of_ranks() -> None:
    def member(rank: int) -> Any:
        return all_gather(lambda: rank * 2, "count", dist.group.WORLD)

    assert run_members(3, member) == [[0, 2, 4]] * 3
    assert all_gather("alone") == ["alone"]


def test_another_stage_or_type_is_an_error() -> None:
    def member(rank: int) -> Any:
        with pytest.raises(RuntimeError) as raised:
            all_gather(rank, "b" if rank else "a", dist.group.WORLD)
        found: list[Any] = [None, None]
        enforce = collective_utils.all_gather_object_enforce_type
        with pytest.raises(TypeError, match="at index 1 is <class 'str'>, while first object type"):
            enforce(dist.group.WORLD, found, "x" if rank else 1)
        enforce(dist.group.WORLD, found, rank, lambda first, other: other == first + 1)
        return raised.value.args[0], found

    text = "Unexpected stage name received from rank 1: b "
    assert run_members(2, member) == [(text, [0, 1])] * 2


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([0], "0"),
        ([3, 2, 1, 0], "0:4"),
        ([0, 2, 4], "0:6:2"),
        ([0, 1, 2, 5], "0:3,5"),
        ([1, 3, 5, 20], "1:7:2,20"),
        (range(0, 32, 8), "0:32:8"),
    ],
)
def test_ranks_are_shown_as_slices(ranks: Any, expected: str) -> None:
    assert collective_utils._summarize_ranks(ranks) == expected


def test_ranks_that_cannot_be_are_refused() -> None:
    for ranks in ([-1, 2], [1, 1]):
        with pytest.raises(AssertionError):
            collective_utils._summarize_ranks(ranks)


def test_errors_of_decorated_functions_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "fastdist.distributed.c10d")

    @c10d_logger._exception_logger
    @c10d_logger._time_logger
    def reduce_all(value: int, group: Any = None) -> int:
        """Reduce."""
        return 6 // value

    assert reduce_all(2) == 3 and reduce_all.__name__ == "reduce_all"
    assert caplog.records == []
    with pytest.raises(ZeroDivisionError):
        reduce_all(0)
    assert caplog.records[0].msg == {
        "func_name": "reduce_all", "error": "integer division or modulo by zero",
    }  # fmt: skip

    def member(rank: int) -> Any:
        return c10d_logger._get_msg_dict("f", group=dist.group.WORLD)

    assert run_members(2, member)[1] == {
        "func_name": "f", "pg_name": "0", "backend": "threads", "world_size": "2",
        "group_size": "2", "global_rank": "1", "local_rank": "1",
    }  # fmt: skip
    assert c10d_logger._get_or_create_logger("x") is c10d_logger._c10d_logger

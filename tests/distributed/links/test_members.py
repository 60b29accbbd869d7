"""Members that share a machine, the names of members, and texts about their calls."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fastdist.distributed.links import calls
from fastdist.distributed.links.calls import encode_call, mismatch, shared_of
from fastdist.distributed.links.members import Members, Record, machines_of
from fastdist.distributed.links.segment import CALL_ROOM
from fastdist.distributed.process_group.transport import Call


def record(rank: int = 0, **changes: Any) -> Record:
    made = Record(
        *(
            rank,
            rank,
            0,
            {},
            "none",
            "",
            "",
            "",
            "",
            "",
            100 + rank,
            5,
            "boot",
            "pids",
            "net",
            0,
            "h",
        ),
    )
    return dataclasses.replace(made, **changes)


ALONE: list[dict[str, Any]] = [
    {"boot_id": "other"},
    {"pid_namespace": "other"},
    {"network_namespace": "other"},
    {"user": 1},
    {"machine": "other"},
    {"shares_nothing": "why"},
]


@pytest.mark.parametrize("changes", ALONE, ids=lambda changes: next(iter(changes)))
def test_memory_is_shared_by_members_alike_in_all_of_these(changes: dict[str, Any]) -> None:
    mine, other = record(0), record(1, **changes)
    assert mine.may_share_memory_with(record(1))
    assert not mine.may_share_memory_with(other) and not other.may_share_memory_with(mine)
    assert machines_of([mine, other, record(2)]) == [[0, 2], [1]]


def test_process_numbers_mean_the_same_only_in_a_namespace_that_is_known() -> None:
    assert record(0).shares_processes_with(record(1))
    nameless = {"pid_namespace": ""}
    assert not record(0, **nameless).shares_processes_with(record(1, **nameless))
    assert not record(0).shares_processes_with(record(1, boot_id="other"))
    assert record(0).shares_host_with(record(1, **nameless))
    assert not record(0).shares_host_with(record(1, boot_id="other"))
    assert not record(0).shares_host_with(record(1, network_namespace="other"))


def test_one_process_has_one_number_and_one_start() -> None:
    mine = record(0)
    assert mine.is_of_process_of(record(1, pid=100))
    assert not mine.is_of_process_of(record(1))
    assert not mine.is_of_process_of(record(1, pid=100, process_start=6))
    assert not mine.is_of_process_of(record(1, pid=100, pid_namespace="other"))


def test_errors_name_eight_members_and_count_the_others() -> None:
    members = Members([record(10 + one) for one in range(12)])
    assert members.name(2) == "rank 12 (pid 112 on h)"
    eight = members.names(range(8))
    assert eight == ", ".join(members.name(one) for one in range(8))
    assert members.names(range(9)) == f"{eight} and 1 more"
    assert members.names(range(12)) == f"{eight} and 4 more"
    assert members.names([3]) == members.name(3)


def test_a_call_is_one_text_whose_first_line_all_must_have_alike() -> None:
    call = Call(12, "all_reduce", "float32, sum", "a.py:3", 0.0)
    text, num_shared = encode_call(call, "12 bytes")
    assert text == b"12\x1fall_reduce\x1ffloat32, sum\x1f12 bytes\na.py:3"
    assert num_shared == text.index(b"\n")
    assert shared_of(text) == text[:num_shared]


@pytest.mark.parametrize("extra", [-1, 0, 1, 5000])
def test_a_long_call_is_cut_and_still_differs_from_others(extra: int) -> None:
    line = "b.py:" + "9" * 2000
    empty, _ = encode_call(Call(1, "f", "", "", 0.0), "")
    room = calls._MOST_SHARED - (len(empty) - 1)
    longs = [Call(1, "f", "x" * (room + extra - 1) + last, line, 0.0) for last in "ab"]
    (text, num_shared), (other, _) = (encode_call(one, "") for one in longs)
    assert num_shared == min(calls._MOST_SHARED + extra, calls._MOST_SHARED) == len(shared_of(text))
    assert len(text) == CALL_ROOM
    assert shared_of(text) != shared_of(other)
    assert (b"..." in text) == (extra > 0)
    if extra > 0:
        whole = text[: calls._MOST_SHARED - 35]
        assert whole == other[: calls._MOST_SHARED - 35] and whole.endswith(b"x")


def test_each_kind_of_call_is_named_once_with_those_that_made_it() -> None:
    members = Members([record(one) for one in range(3)])
    texts = [
        (one, encode_call(Call(4, name, agreed, f"p{one}.py:1", 0.0), detail)[0])
        for one, (name, agreed, detail) in enumerate(
            [("all_reduce", "float32", "8 bytes"), ("barrier", "", ""), ("barrier", "", "")]
        )
    ]
    assert str(mismatch(members, texts)) == (
        "Detected mismatch between collectives on ranks: the members of the group called "
        "differently: rank 0 (pid 100 on h) called all_reduce "
        "(float32, 8 bytes), number 4 of the group, at p0.py:1; rank 1 (pid 101 on h), rank 2 "
        "(pid 102 on h) called barrier, number 4 of the group, at p1.py:1"
    )

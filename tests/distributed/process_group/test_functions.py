"""Functions of fastdist.distributed: defaults, waits, and the calls that transports get."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist.distributed import distributed_c10d as c10d
from fastdist.distributed.process_group import collectives, exchange, objects
from fastdist.distributed.process_group.group import ProcessGroup
from tests.distributed.process_group.recorder import RANK, asked_of, recorded_group


@pytest.fixture
def group() -> Iterator[ProcessGroup]:
    made = recorded_group()
    yield made
    made.shutdown()


# Defaults by parameter name, for all functions.
DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(["group", "device", "device_ids", "timeout"]),
    **dict.fromkeys(["dst", "src", "group_dst", "group_src", "peer", "group_peer"]),
    **dict.fromkeys(["gather_list", "scatter_list", "output_split_sizes", "input_split_sizes"]),
    **dict.fromkeys(["object_gather_list", "scatter_object_input_list"]),
    "async_op": False,
    "use_batch": False,
    "op": dist.ReduceOp.SUM,
    "tag": 0,
    "wait_all_ranks": False,
}
FUNCTIONS = [
    function
    for module in (collectives, exchange, objects)
    for name, function in vars(module).items()
    if inspect.isfunction(function) and function.__module__ == module.__name__ and name[0] != "_"
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_what_parameters_are_if_nobody_gives_them(function: Callable[..., Any]) -> None:
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default is not inspect.Parameter.empty:
            assert parameter.default is DEFAULTS[name] or parameter.default == DEFAULTS[name]
    assert len(FUNCTIONS) > 20


def two() -> fd.Tensor:
    return fd.tensor([1.0, 2.0])


def some(number: int = 3) -> list[fd.Tensor]:
    return [two() for _ in range(number)]


def a_barrier(**options: Any) -> Any:
    return dist.barrier(**options)


# A function with its arguments, and the name and arguments of the transport's call.
CALLS: list[tuple[Callable[..., Any], str, tuple[Any, ...]]] = [
    (lambda **o: dist.all_reduce(two(), dist.ReduceOp.MIN, **o), "all_reduce", ([1, 2], "min")),
    (lambda **o: dist.all_reduce(two(), **o), "all_reduce", ([1, 2], "sum")),
    (
        lambda **o: c10d.all_reduce_coalesced(tuple(some(2)), **o),
        *("all_reduce_coalesced", ([1, 2, 1, 2], "sum")),
    ),
    (
        lambda **o: c10d.all_reduce_coalesced(some(1), dist.ReduceOp.MAX, **o),
        *("all_reduce_coalesced", ([1, 2], "max")),
    ),
    (lambda **o: dist.reduce(two(), 2, **o), "reduce", ([1, 2], "sum", 2)),
    (
        lambda **o: dist.reduce(two(), op=dist.ReduceOp.PRODUCT, group_dst=0, **o),
        *("reduce", ([1, 2], "product", 0)),
    ),
    (lambda **o: dist.broadcast(two(), 2, **o), "broadcast", ([1, 2], 2)),
    (lambda **o: dist.broadcast(two(), group_src=1, **o), "broadcast", ([1, 2], 1)),
    (lambda **o: dist.all_gather(some(), two(), **o), "all_gather", ([3, 2], [1, 2])),
    (
        lambda **o: dist.all_gather_into_tensor(fd.zeros(6), two(), **o),
        *("all_gather_into_tensor", ([3, 2], [1, 2])),
    ),
    (
        lambda **o: dist.reduce_scatter(two(), some(), dist.ReduceOp.MAX, **o),
        *("reduce_scatter", ([2], [[1, 2]] * 3, "max")),
    ),
    (
        lambda **o: dist.reduce_scatter_tensor(two(), fd.arange(6.0), dist.ReduceOp.MIN, **o),
        *("reduce_scatter_tensor", ([2], [[0, 1], [2, 3], [4, 5]], "min")),
    ),
    (
        lambda **o: dist.all_to_all_single(fd.zeros(3), fd.arange(3.0), **o),
        *("all_to_all_single", ([1, 1, 1], [[0], [1], [2]])),
    ),
    (
        lambda **o: dist.all_to_all_single(two(), two(), [0, 2, 0], [1, 1, 0], **o),
        *("all_to_all_single", ([0, 2, 0], [[1], [2], []])),
    ),
    (lambda **o: dist.all_to_all(some(), some(), **o), "all_to_all", ([2] * 3, [[1, 2]] * 3)),
    (lambda **o: dist.gather(two(), **o), "gather", (None, [1, 2], 0)),
    (lambda **o: dist.gather(two(), some(), RANK, **o), "gather", (3, [1, 2], RANK)),
    (lambda **o: dist.gather(two(), group_dst=2, **o), "gather", (None, [1, 2], 2)),
    (lambda **o: dist.scatter(two(), **o), "scatter", (None, 0)),
    (lambda **o: dist.scatter(two(), some(), RANK, **o), "scatter", ([[1, 2]] * 3, RANK)),
    (lambda **o: dist.scatter(two(), group_src=2, **o), "scatter", (None, 2)),
    (a_barrier, "barrier", ()),
]


@pytest.mark.parametrize(("function", "name", "arguments"), CALLS)
def test_a_call_is_done_when_it_returns_unless_it_is_async(
    group: ProcessGroup, function: Callable[..., Any], name: str, arguments: tuple[Any, ...]
) -> None:
    assert function(group=group) is None
    found = asked_of(group)
    assert (found.name, found.arguments) == (name, arguments)
    assert found.thread is threading.current_thread()
    assert found.line.startswith("test_functions.py:")
    work = function(group=group, async_op=True)
    assert work.wait()
    found = asked_of(group)
    assert found.arguments == arguments and found.thread is not threading.current_thread()


@pytest.mark.parametrize(("function", "name", "arguments"), CALLS)
def test_outside_of_a_group_a_call_warns_at_its_line_and_does_nothing(
    function: Callable[..., Any], name: str, arguments: tuple[Any, ...]
) -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        for more in ({}, {"async_op": True}):
            with pytest.warns(UserWarning, match=f"Running {name} on global rank 0 which") as found:
                assert function(group=dist.GroupMember.NON_GROUP_MEMBER, **more) is None
            assert found[0].filename == __file__
    finally:
        dist.destroy_process_group()


def test_messages_and_objects_outside_of_a_group_are_none_too() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    group, x = dist.GroupMember.NON_GROUP_MEMBER, two()
    calls: list[tuple[Callable[[], Any], Any]] = [
        (lambda: dist.send(x, 1, group), None),
        (lambda: dist.isend(x, 1, group), None),
        (lambda: dist.recv(x, 1, group), -1),
        (lambda: dist.irecv(x, 1, group), None),
        (lambda: dist.all_gather_object([None], 1, group), None),
        (lambda: dist.gather_object(1, None, 0, group), None),
        (lambda: dist.broadcast_object_list([1], 0, group), None),
        (lambda: dist.scatter_object_list([None], [1], 0, group), None),
        (lambda: dist.send_object_list([1], 1, group), None),
        (lambda: dist.recv_object_list([1], 1, group), -1),
        (lambda: dist.monitored_barrier(group), None),
        (lambda: c10d.all_gather_coalesced([[x]], [x], group), None),
        (lambda: c10d.all_reduce_coalesced([x], group=group), None),
    ]
    try:
        for call, expected in calls:
            with pytest.warns(UserWarning, match="which does not belong to the given group"):
                assert call() == expected
    finally:
        dist.destroy_process_group()


def test_gathers_of_several_tensors_are_one_message(group: ProcessGroup) -> None:
    lists, given = [some(2) for _ in range(3)], [fd.tensor([3.0, 4.0]), fd.tensor([5.0, 6.0])]
    assert c10d.all_gather_coalesced(lists, given, group) is None
    (asked,) = group._carriers["gloo"].asked
    sent = np.array(asked.arguments[1], np.uint8)
    assert [sent[at : at + 8].view(np.float32).tolist() for at in (0, 16)] == [[3, 4], [5, 6]]
    work = c10d.all_gather_coalesced(lists, given, group, async_op=True)
    assert work is not None and work.wait()
    with pytest.raises(ValueError, match="invalid output size: 2 tensors for 0 inputs"):
        c10d.all_gather_coalesced(lists, [], group, async_op=True)
    with pytest.raises(TypeError, match="output_tensor_lists should be a list"):
        c10d.all_gather_coalesced(3, given, group)  # type: ignore[arg-type]


def test_messages_have_their_peer_tag_number_and_thread(group: ProcessGroup) -> None:
    for number in range(2):
        dist.send(two(), 2, group, tag=5)
        found = asked_of(group)
        assert found.arguments == ([1, 2], 2, 5) and found.sequence == number
        assert (found.name, found.agreed) == ("send", "float32, 2 numbers")
        assert found.thread is threading.current_thread()
        x = fd.zeros(2)
        assert dist.recv(x, group=group, group_src=0) == 0 and x.tolist() == [10, 11]
        found = asked_of(group)
        assert found.arguments == (2, 0, 0) and found.sequence == number
        assert found.thread is threading.current_thread()
    calls: list[tuple[Callable[[], Any], tuple[Any, ...]]] = [
        (lambda: dist.isend(two(), group=group, group_dst=0, tag=1), ([1, 2], 0, 1)),
        (lambda: dist.irecv(two(), 2, group, tag=3), (2, 2, 3)),
    ]
    for call, arguments in calls:
        work = call()
        assert work is not None and work.wait()
        found = asked_of(group)
        assert found.arguments == arguments and found.thread is not threading.current_thread()
        assert found.sequence == 0
    x = fd.zeros(1)
    assert dist.recv(x, group=group, tag=3) == 2  # from any sender
    found = asked_of(group)
    assert found.arguments == (1, None, 3) and found.sequence == -1
    # The message counts as the second message of its sender.
    dist.recv(x, 2, group, tag=3)
    assert asked_of(group).sequence == 2
    work = dist.irecv(x, group=group)
    assert work is not None and work.wait() and work.source_rank() == 2


def test_a_barrier_has_its_own_timeout_and_takes_a_list_of_gpus(group: ProcessGroup) -> None:
    dist.barrier(group, timeout=timedelta(seconds=3), device_ids=[0])
    dist.barrier(group)
    short, long = group._carriers["gloo"].asked
    assert 90 < long.deadline - short.deadline < 110
    with pytest.raises(TypeError, match=r"List\[int\]"):
        dist.barrier(group, device_ids=(0,))


def test_lists_may_be_tuples_and_nothing_else(group: ProcessGroup) -> None:
    for call in (
        lambda given: dist.all_gather(given, two(), group),
        lambda given: dist.reduce_scatter(two(), given, group=group),
        lambda given: dist.all_to_all(given, some(), group),
        lambda given: dist.all_to_all(some(), given, group),
    ):
        call(tuple(some()))
        for wrong in (two(), iter(some()), None):
            with pytest.raises(TypeError, match=r"of type List\[torch.Tensor\] but got"):
                call(wrong)

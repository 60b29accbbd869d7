"""The methods of a ProcessGroup: the calls that its transport gets, and the forms of lists."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.core.errors import CollectiveError
from fastdist.distributed import distributed_c10d as c10d
from fastdist.distributed.process_group import init, options
from fastdist.distributed.process_group.group import ProcessGroup
from tests.distributed.process_group.recorder import RANK, asked_of, recorded_group


@pytest.fixture
def group() -> Iterator[ProcessGroup]:
    made = recorded_group()
    yield made
    made.shutdown()


def two() -> fd.Tensor:
    return fd.tensor([1.0, 2.0])


def several(*sizes: int) -> list[fd.Tensor]:
    return [fd.zeros(size) for size in sizes]


F2 = "float32 of shape (2,)"
OPS = [10.0, 11.0]


def rooted(kind: Any, root: int) -> Any:
    return kind(rootRank=root)


# A call of a method, and the name, agreed text and arguments of the transport's call.
CALLS: list[tuple[Callable[[ProcessGroup], Any], str, str, tuple[Any, ...]]] = [
    (lambda g: g.allreduce(two()), "all_reduce", f"{F2}, sum", ([1, 2], "sum")),
    (lambda g: g.allreduce([two()]), "all_reduce", f"{F2}, sum", ([1, 2], "sum")),
    (
        lambda g: g.allreduce([two()], options.AllreduceOptions(reduceOp=c10d.ReduceOp.MAX)),
        *("all_reduce", f"{F2}, max", ([1, 2], "max")),
    ),
    (
        lambda g: g.allreduce_coalesced([two(), fd.ones(1, 1)]),
        "all_reduce_coalesced",
        "float32 of shapes [(2,), (1, 1)], sum",
        ([1, 2, 1], "sum"),
    ),
    (
        lambda g: g.allreduce_coalesced([two()]),
        *("all_reduce_coalesced", "float32 of shapes [(2,)], sum", ([1, 2], "sum")),
    ),
    (lambda g: g.reduce([two()]), "reduce", f"{F2}, sum at rank 0", ([1, 2], "sum", 0)),
    (
        lambda g: g.reduce(two(), rooted(options.ReduceOptions, 2)),
        *("reduce", f"{F2}, sum at rank 2", ([1, 2], "sum", 2)),
    ),
    (lambda g: g.broadcast(two()), "broadcast", f"{F2}, from rank 0", ([1, 2], 0)),
    (
        lambda g: g.broadcast([two()], rooted(options.BroadcastOptions, 1)),
        *("broadcast", f"{F2}, from rank 1", ([1, 2], 1)),
    ),
    (lambda g: g.allgather([several(2, 2, 2)], [two()]), "all_gather", F2, ([3, 2], [1, 2])),
    (lambda g: g.allgather(several(2, 2, 2), two()), "all_gather", F2, ([3, 2], [1, 2])),
    (
        lambda g: g.allgather(tuple(several(1, 2, 3)), two()),
        "all_gather",
        "float32 of shapes [(1,), (2,), (3,)]",
        ([1, 2, 3], [[1, 2]] * 3),
    ),
    (
        lambda g: g._allgather_base(fd.zeros(3, 2), two()),
        *("all_gather_into_tensor", F2, ([3, 2], [1, 2])),
    ),
    (
        lambda g: g.reduce_scatter([fd.zeros(2)], [[two(), two() * 2, two() * 3]]),
        "reduce_scatter",
        "float32 of shapes [(2,), (2,), (2,)], sum",
        ([2], [[1, 2], [2, 4], [3, 6]], "sum"),
    ),
    (
        lambda g: g.reduce_scatter(fd.zeros(2), several(2, 2, 2)),
        "reduce_scatter",
        "float32 of shapes [(2,), (2,), (2,)], sum",
        ([2], [[0, 0]] * 3, "sum"),
    ),
    (
        lambda g: g.reduce_scatter(fd.zeros(2), several(1, 2, 3)),
        "reduce_scatter",
        "float32 of shapes [(1,), (2,), (3,)], sum",
        ([0] * 6, "sum"),
    ),
    (
        lambda g: g._reduce_scatter_base(fd.zeros(1), fd.tensor([1.0, 2.0, 3.0])),
        *("reduce_scatter_tensor", "float32 of shape (3,), sum", ([1], [[1], [2], [3]], "sum")),
    ),
    (
        lambda g: g.alltoall_base(fd.zeros(3, 2), fd.arange(6.0).reshape(3, 2)),
        "all_to_all_single",
        "float32, rows of shape (2,)",
        ([2, 2, 2], [[0, 1], [2, 3], [4, 5]]),
    ),
    (
        lambda g: g.alltoall_base(fd.zeros(4), fd.arange(3.0), [0, 1, 3], [2, 1, 0]),
        *("all_to_all_single", "float32, rows of shape ()", ([0, 1, 3], [[0, 1], [2], []])),
    ),
    (
        lambda g: g.alltoall(several(1, 2, 3), several(2, 0, 1)),
        *("all_to_all", "float32", ([1, 2, 3], [[0, 0], [], [0]])),
    ),
    (lambda g: g.gather([], [two()]), "gather", f"{F2}, at rank 0", (None, [1, 2], 0)),
    (
        lambda g: g.gather([several(2, 2, 2)], [two()], rooted(options.GatherOptions, RANK)),
        *("gather", f"{F2}, at rank 1", (3, [1, 2], 1)),
    ),
    (
        lambda g: g.gather(several(2, 2, 2), two(), rooted(options.GatherOptions, RANK)),
        *("gather", f"{F2}, at rank 1", (3, [1, 2], 1)),
    ),
    (lambda g: g.scatter(two(), []), "scatter", f"{F2}, from rank 0", (None, 0)),
    (
        lambda g: g.scatter([two()], [several(2, 2, 2)], rooted(options.ScatterOptions, RANK)),
        *("scatter", f"{F2}, from rank 1", ([[0, 0]] * 3, 1)),
    ),
    (
        lambda g: g.scatter(two(), several(2, 2, 2), rooted(options.ScatterOptions, RANK)),
        *("scatter", f"{F2}, from rank 1", ([[0, 0]] * 3, 1)),
    ),
    (lambda g: g.barrier(), "barrier", "", ()),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("method", "name", "agreed", "arguments"), CALLS)
def test_what_each_method_asks_of_its_transport(
    group: ProcessGroup,
    method: Callable[[ProcessGroup], Any],
    name: str,
    agreed: str,
    arguments: tuple[Any, ...],
) -> None:
    before = time.monotonic()
    work = method(group)
    assert work.wait() and work.is_success()
    found = asked_of(group)
    assert (found.name, found.agreed, found.arguments) == (name, agreed, arguments)
    assert found.line.startswith("test_methods.py:") and found.sequence == 0
    assert 100.0 <= found.deadline - before < 110.0
    method(group).wait()
    assert asked_of(group).sequence == 1


def test_results_are_placed_where_the_caller_gave_memory(group: ProcessGroup) -> None:
    x, outs, wide = two(), several(2, 2, 2), fd.zeros(3, 2)
    group.allreduce(x).wait()
    assert x.tolist() == OPS
    one, other = two(), fd.ones(1)
    group.allreduce_coalesced([one, other]).wait()
    assert one.tolist() == OPS and other.tolist() == [12]
    group.allgather([outs], [x]).wait()
    assert [out.tolist() for out in outs] == [[10, 11], [12, 13], [14, 15]]
    uneven = several(1, 2, 3)
    group.allgather(uneven, two()).wait()
    assert [out.tolist() for out in uneven] == [[10], OPS, [10, 11, 12]]
    group._allgather_base(wide, x).wait()
    assert wide.tolist() == [[10, 11], [12, 13], [14, 15]]
    part = fd.zeros(2)
    group.reduce_scatter(part, several(1, 2, 3)).wait()
    assert part.tolist() == [11, 12]  # the part of rank 1 follows the single number of rank 0
    group.gather([outs], [part], rooted(options.GatherOptions, RANK)).wait()
    assert [out.tolist() for out in outs] == [OPS] * 3
    group.scatter([part], [], options.ScatterOptions()).wait()
    assert part.tolist() == OPS
    group.alltoall(outs, several(1, 1, 1)).wait()
    assert [out.tolist() for out in outs] == [OPS] * 3


def test_only_the_root_gets_what_is_reduced_and_only_others_what_is_broadcast(
    group: ProcessGroup,
) -> None:
    for root, expected in ((RANK, OPS), (0, [1.0, 2.0])):
        x, strided = two(), fd.tensor([[1.0, 9.0], [2.0, 9.0]])[:, 0]
        group.reduce([strided], rooted(options.ReduceOptions, root)).wait()
        assert strided.tolist() == expected
        version = x._version
        group.reduce([x], rooted(options.ReduceOptions, root)).wait()
        assert (x._version > version) == (root == RANK)
    for root in (RANK, 0):
        x = two()
        version = x._version
        group.broadcast([x], rooted(options.BroadcastOptions, root)).wait()
        assert (x._version > version) == (root != RANK)


def test_means_are_divided_and_factors_multiplied(group: ProcessGroup) -> None:
    x = two()
    group.allreduce([x], options.AllreduceOptions(reduceOp=c10d.ReduceOp.AVG)).wait()
    assert np.allclose(x.tolist(), [10 / 3, 11 / 3])
    assert asked_of(group).agreed == f"{F2}, avg"
    for root in (RANK, 0):
        x, how = two(), c10d._make_nccl_premul_sum(5.0)
        group.reduce([x], options.ReduceOptions(reduceOp=how, rootRank=root)).wait()
        assert asked_of(group).arguments == ([5, 10], "sum", root)
        assert x.tolist() == (OPS if root == RANK else [1.0, 2.0])
    part = fd.zeros(1)
    how = options.ReduceScatterOptions(reduceOp=c10d._make_nccl_premul_sum(fd.tensor(2.0)))
    group._reduce_scatter_base(part, fd.tensor([1.0, 2.0, 3.0]), how).wait()
    assert asked_of(group).arguments == ([1], [[2], [4], [6]], "sum") and part.tolist() == [10]
    group._reduce_scatter_base(
        part, fd.zeros(3), options.ReduceScatterOptions(reduceOp=c10d.ReduceOp.AVG)
    ).wait()
    assert np.allclose(part.tolist(), [10 / 3])


def test_complex_numbers_are_reduced_as_pairs(group: ProcessGroup) -> None:
    x = fd.tensor([1 + 2j, 3 + 4j])
    for call, more in (
        (lambda: group.allreduce([x]), ()),
        (lambda: group.reduce([x], rooted(options.ReduceOptions, 0)), (0,)),
    ):
        before = [one for value in x.tolist() for one in (value.real, value.imag)]
        call().wait()
        assert asked_of(group).arguments == (before, "sum", *more)
    assert x.tolist() == [10 + 11j, 12 + 13j]
    group._reduce_scatter_base(x[:1], fd.tensor([1j, 2j, 3j])).wait()
    assert asked_of(group).arguments == ([2], [[0, 1], [0, 2], [0, 3]], "sum")


@pytest.mark.parametrize(("start", "is_copied"), [(0, True), (1, True), (2, False), (4, True)])
def test_what_is_sent_may_be_memory_that_is_filled_at_its_own_place_alone(
    group: ProcessGroup, start: int, is_copied: bool
) -> None:
    room = fd.arange(6.0)
    group._allgather_base(room, room[start : start + 2]).wait()
    _, array = group._carriers["gloo"].given
    assert asked_of(group).arguments[1] == [start, start + 1]
    array[...] = -1.0
    assert (room.tolist() == [10, 11, 12, 13, 14, 15]) == is_copied
    other = fd.tensor([7.0, 8.0])
    group._allgather_base(room, other).wait()
    group._carriers["gloo"].given[1][...] = -2.0
    assert other.tolist() == [-2.0, -2.0]  # no copy was made


def test_what_is_sent_is_copied_where_it_would_be_overwritten(group: ProcessGroup) -> None:
    for begin, call in (
        (3, lambda x: group._reduce_scatter_base(x[:1], x)),
        (3, lambda x: group.alltoall_base(x, x)),
        (3, lambda x: group.scatter([x], [[x] * 3], rooted(options.ScatterOptions, RANK))),
    ):
        x = fd.arange(float(begin))
        call(x).wait()
        for array in group._carriers["gloo"].given[-2]:
            if isinstance(array, np.ndarray):
                array[...] = -1.0
        assert -1.0 not in x.tolist()


def test_a_call_may_have_a_timeout_of_its_own(group: ProcessGroup) -> None:
    before = time.monotonic()
    group.barrier(options.BarrierOptions(timeout=timedelta(seconds=7))).wait()
    assert 7.0 <= asked_of(group).deadline - before < 17.0


@pytest.mark.parametrize("is_async", [True, False])
def test_a_call_that_is_waited_for_has_ended(group: ProcessGroup, is_async: bool) -> None:
    x = two()
    work = group.allreduce([x], options.AllreduceOptions(asyncOp=is_async))
    assert is_async or work.is_completed()
    work.wait()
    assert work.result() == [x] and x.tolist() == OPS


WRONG: list[tuple[Callable[[ProcessGroup], Any], str]] = [
    (lambda g: g.allreduce([]), "requires non-empty tensor list"),
    (
        lambda g: g.allreduce_coalesced([two(), two().double()]),
        "must all have the same type: .*float64, .*float32",
    ),
    (
        lambda g: g.allgather([several(2, 3, 2)], [two()]),
        r"all_gather: invalid tensor size of `tensor_list\[1\]` \(expected \(2,\), got \(3,\)\)",
    ),
    (lambda g: g.allgather([several(2, 2)], [two()]), "all_gather: .*expected length 3, got 2"),
    (
        lambda g: g.reduce_scatter(fd.zeros(2), several(2, 3, 2)),
        r"reduce_scatter: invalid tensor size of `input_list\[1\]` \(expected \(2,\), got \(3,\)\)",
    ),
    (lambda g: g.reduce_scatter(fd.zeros(2), several(2, 2)), "expected length 3, got 2"),
    (
        lambda g: g.gather(several(2, 2, 3), two(), rooted(options.GatherOptions, RANK)),
        r"gather: invalid tensor size of `gather_list\[2\]` \(expected \(2,\), got \(3,\)\)",
    ),
    (
        lambda g: g.gather(
            [one.double() for one in several(2, 2, 2)], two(), rooted(options.GatherOptions, RANK)
        ),
        "different dtypes",
    ),
    (
        lambda g: g.scatter(
            two(), [one.double() for one in several(2, 2, 2)], rooted(options.ScatterOptions, RANK)
        ),
        "different dtypes",
    ),
    (lambda g: g.alltoall(several(1, 1, 1), [one.long() for one in several(1, 1, 1)]), "different"),
    (lambda g: g.reduce_scatter(fd.zeros(2).double(), several(2, 2, 2)), "different dtypes"),
    (lambda g: g.allgather(several(2, 2, 2), two().double()), "different dtypes"),
    (lambda g: g.gather(several(2), two(), rooted(options.GatherOptions, RANK)), "list size 1. "),
    (
        lambda g: g.scatter(two(), several(3, 2, 2), rooted(options.ScatterOptions, RANK)),
        r"scatter: invalid tensor size of `scatter_list\[0\]` \(expected \(2,\), got \(3,\)\)",
    ),
    (lambda g: g.alltoall(several(1, 1), several(1, 1, 1)), "output_tensor_list.*length 3, got 2"),
    (lambda g: g.alltoall(several(1, 1, 1), several(1)), "input_tensor_list.*length 3, got 1"),
    (lambda g: g._allgather_base(fd.zeros(5), two()), "times input tensor size: got"),
    (lambda g: g._reduce_scatter_base(two(), fd.zeros(5)), "output size times world size: got"),
    (lambda g: g.alltoall_base(fd.zeros(4), fd.zeros(3)), "4 rows, 3 members"),
    (lambda g: g.alltoall_base(fd.tensor(1.0), fd.zeros(3)), "has no rows to split"),
    (lambda g: g.alltoall_base(fd.zeros(3), fd.zeros(3), [1, 1, -1]), "match total dim 0 size"),
    (lambda g: g.alltoall_base(fd.zeros(3), fd.zeros(3), [4, 0, -1]), "match total dim 0 size"),
    (lambda g: g.alltoall_base(fd.zeros(3), fd.zeros(3), [3]), "group size: 1 and 3"),
    (lambda g: g.alltoall_base(fd.zeros(3), fd.zeros(3).double()), "different dtypes"),
    (lambda g: g.send(two(), 3), "send: invalid rank 3; the group has ranks 0 to 2"),
    (lambda g: g.recv(two(), -1), "recv: invalid rank -1; the group has ranks 0 to 2"),
]


@pytest.mark.parametrize(("call", "words"), WRONG)
def test_wrong_arguments_of_methods_reach_no_transport(
    group: ProcessGroup, call: Callable[[ProcessGroup], Any], words: str
) -> None:
    with pytest.raises((ValueError, RuntimeError), match=words):
        call(group)
    assert group._carriers["gloo"].asked == []


@pytest.mark.parametrize("root", [-1, 3])
def test_a_root_is_a_member(group: ProcessGroup, root: int) -> None:
    for name, call in (
        ("reduce", lambda: group.reduce([two()], rooted(options.ReduceOptions, root))),
        ("broadcast", lambda: group.broadcast([two()], rooted(options.BroadcastOptions, root))),
        ("gather", lambda: group.gather([], [two()], rooted(options.GatherOptions, root))),
        ("scatter", lambda: group.scatter([two()], [], rooted(options.ScatterOptions, root))),
    ):
        text = f"{name}: invalid root rank: {root}; the group has ranks 0 to 2"
        with pytest.raises(ValueError, match=text):
            call()
    assert group._carriers["gloo"].asked == []


def test_no_target_is_written_where_its_elements_share_memory(group: ProcessGroup) -> None:
    wide, fine = fd.ones(2, 1).expand(2, 3), fd.ones(6)
    for call in (
        lambda: group.allreduce([wide]),
        lambda: group.allreduce_coalesced([fine, wide]),
        lambda: group.reduce([wide]),
        lambda: group.broadcast([wide]),
        lambda: group.allgather([[wide] * 3], [fine]),
        lambda: group._allgather_base(wide, two()),
        lambda: group.reduce_scatter([wide], [[fine] * 3]),
        lambda: group._reduce_scatter_base(wide, fd.ones(18)),
        lambda: group.alltoall_base(wide, wide.clone()),
        lambda: group.alltoall([wide] * 3, [fine] * 3),
        lambda: group.gather([[wide] * 3], [fine], rooted(options.GatherOptions, RANK)),
        lambda: group.scatter([wide], []),
        lambda: group.recv([wide], 0),
    ):
        with pytest.raises(RuntimeError, match="single memory location"):
            call()
    assert group._carriers["gloo"].asked == []
    # An input may have overlapping elements.
    group._allgather_base(fd.zeros(18), wide).wait()
    assert asked_of(group).arguments == ([3, 6], [1.0] * 6)


DEFAULTS = {"opts": None, "tag": 0, "is_async": True, "timeout": None, "backend": None}
DEFAULTS |= {"output_split_sizes": None, "input_split_sizes": None, "inputs": None}
DEFAULTS |= {"op": None, "root": None, "wait_all_ranks": False}


def test_what_arguments_of_methods_are_if_nobody_gives_them() -> None:
    seen = set()
    for name, method in inspect.getmembers(ProcessGroup, inspect.isfunction):
        if name.startswith("__") or name == "_start_message":
            continue
        for key, parameter in inspect.signature(method).parameters.items():
            if parameter.default is not inspect.Parameter.empty:
                assert parameter.default is DEFAULTS[key], (name, key)
                seen.add(key)
    assert {"opts", "tag", "is_async", "timeout"} <= seen


KINDS = {one for one in vars(options).values() if inspect.isclass(one)}
PUBLIC = [one for one in KINDS if one.__name__.endswith("Options") and one.__name__[0] != "_"]


def test_options_have_the_defaults_and_the_place_that_users_know() -> None:
    assert len(PUBLIC) == 11
    for kind in PUBLIC:
        made = kind()
        assert made.timeout is None and made.asyncOp is True
        assert repr(made) == f"{kind.__name__}()"
        assert kind.__module__ == "fastdist.distributed.distributed_c10d"
        if hasattr(c10d, kind.__name__):
            assert getattr(c10d, kind.__name__) is kind
        assert repr(kind(asyncOp=False)) == f"{kind.__name__}(asyncOp=False)"
        with pytest.raises(TypeError, match=f"{kind.__name__} has no option 'qwyx'"):
            kind(qwyx=1)
        for root in {"rootRank", "rootTensor", "group_rank"} & vars(kind).keys():
            assert getattr(made, root) == 0
    assert options.DistributedBackendOptions().group_size == 1
    for kind in (options.AllreduceOptions, options.ReduceOptions, options.ReduceScatterOptions):
        assert kind().reduceOp == c10d.ReduceOp.SUM


def test_a_forked_child_does_not_leave_the_groups_of_its_parent_at_exit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    c10d.init_process_group("gloo", store=c10d.HashStore(), rank=0, world_size=1)
    try:
        with monkeypatch.context() as child:
            child.setattr(init, "_process_id", -1)
            init._leave_at_exit()
        assert c10d.is_initialized()
        init._leave_at_exit()
        assert not c10d.is_initialized()
    finally:
        c10d.destroy_process_group()


def test_what_fails_at_exit_is_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (CollectiveError("late"), OSError("gone"), RuntimeError("closed")):

        def fail(error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(init, "destroy_process_group", fail)
        init._leave_at_exit()

"""The methods of a ProcessGroup, called as PyTorch code calls them: lists, keywords, options."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist.autograd.profiler import profile
from fastdist.distributed import distributed_c10d as c10d
from fastdist.distributed.process_group.world import World, here
from tests.distributed.process_group.thread_members import run_members


def test_several_tensors_of_a_member_are_reduced_with_each_other() -> None:
    def member(rank: int) -> list[Any]:
        group: Any = dist.group.WORLD
        two = [fd.tensor([1.0, 5.0]) + rank, fd.tensor([10.0, 2.0])]
        group.allreduce(two).wait()
        lows = [fd.tensor([3, 4]), fd.tensor([rank, 9])]
        group.allreduce(lows, dist.ReduceOp.MIN).wait()
        means = [fd.full((1,), 4.0 * rank), fd.zeros(1)]
        group.allreduce(means, op=dist.ReduceOp.AVG).wait()
        sparse = [fd.tensor([0.0, 1.0 + rank]).to_sparse() for _ in range(2)]
        group.allreduce(sparse).wait()
        return [one.tolist() for one in (*two, *lows, *means)] + [
            one.to_dense().tolist() for one in sparse
        ]

    expected = [[23.0, 15.0]] * 2 + [[0, 4]] * 2 + [[1.0]] * 2 + [[0.0, 6.0]] * 2
    assert run_members(2, member) == [expected] * 2


def test_roots_reductions_and_timeouts_by_name_or_place() -> None:
    def member(rank: int) -> list[Any]:
        group: Any = dist.group.WORLD
        wait = timedelta(seconds=9)
        x, y, pair = fd.full((2,), float(rank)), fd.ones(1), [fd.zeros(1), fd.full((1,), 7.0)]
        group.broadcast(x, root=1).wait()
        group.broadcast(pair, c10d.BroadcastOptions(rootRank=0, rootTensor=1)).wait()
        group.reduce(y, 0, dist.ReduceOp.SUM, wait).wait()
        outs, own = [fd.zeros(1), fd.zeros(1)], fd.full((1,), float(rank))
        group.allgather(outs, own, timeout=wait).wait()
        room = [fd.zeros(1), fd.zeros(1)] if rank == 1 else []
        group.gather(room, own, root=1).wait()
        part = fd.zeros(1)
        group.scatter(part, outs if rank == 0 else [], 0).wait()
        total = fd.zeros(1)
        group.reduce_scatter(total, [fd.ones(1), fd.full((1,), 3.0)], op=dist.ReduceOp.MAX).wait()
        group.alltoall_base(outs[0], own, [1, 0], [1, 0] if rank == 0 else [0, 1], None, wait)
        group.barrier(timeout=wait).wait()
        group.monitored_barrier(wait)
        return [x, *pair, y, *room, part, total]

    first, second = run_members(2, member)
    assert [one.tolist() for one in first] == [[1.0, 1.0], [7.0], [7.0], [2.0], [0.0], [1.0]]
    assert [one.tolist() for one in second] == [
        [1.0, 1.0], [7.0], [7.0], [1.0], [0.0], [1.0], [1.0], [3.0],
    ]  # fmt: skip


def test_lists_of_lists_and_of_several_dtypes_are_one_message() -> None:
    def member(rank: int) -> list[Any]:
        group: Any = dist.group.WORLD
        lists = [[fd.zeros(1) for _ in range(4)] for _ in range(2)]
        group.allgather(lists, [fd.full((1,), 2.0 * rank), fd.full((1,), 2.0 * rank + 1)]).wait()
        inputs = [fd.tensor([rank, 9]), fd.full((), 0.5 + rank), fd.zeros(0)]
        outs = [[fd.empty_like(one) for one in inputs] for _ in range(2)]
        future: Any = dist.all_gather_coalesced(outs, inputs, async_op=True)
        future.wait()
        wide = [fd.zeros(2), fd.zeros(2, dtype=fd.int64)]
        group.allgather_into_tensor_coalesced(wide, [fd.ones(1) * rank, fd.tensor([rank])]).wait()
        parts = [fd.zeros(1), fd.zeros(2)]
        group.reduce_scatter_tensor_coalesced(parts, [fd.arange(2.0), fd.arange(4.0)]).wait()
        sums = [fd.ones(1), fd.full((1,), 1 + 2j)]
        dist.all_reduce_coalesced(sums)
        names = group._carriers["threads"].names
        assert names.count("all_gather_coalesced") == 1
        found = [lists[1], *outs, wide, parts, sums]
        return [[one.tolist() for one in many] for many in found]

    for rank, found in enumerate(run_members(2, member)):
        assert found[0] == [[0.0], [1.0], [2.0], [3.0]]
        assert found[1:3] == [[[0, 9], 0.5, []], [[1, 9], 1.5, []]]
        assert found[3] == [[0.0, 1.0], [0, 1]]
        assert found[4] == [[2.0 * rank], [4.0 * rank, 4.0 * rank + 2]]
        assert found[5] == [[2.0], [2 + 4j]]


def test_wrong_lists_are_refused_as_runtime_and_value_errors() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    group: Any = dist.group.WORLD
    x, y, double = fd.zeros(1), fd.zeros(2), fd.zeros(1, dtype=fd.float64)
    sparse = fd.ones(1).to_sparse()
    root = c10d.BroadcastOptions(rootTensor=1)
    cases: list[tuple[str, Any]] = [
        ("requires non-empty tensor list", lambda: group.allreduce([])),
        ("invalid tensor type at index 1", lambda: group.allreduce([x, double])),
        ("invalid tensor size at index 1", lambda: group.allreduce([x, y])),
        ("invalid tensor layout at index 1", lambda: group.allreduce([x, sparse])),
        ("invalid root rank: -1", lambda: group.broadcast(x, -1)),
        ("invalid root tensor: 1", lambda: group.broadcast(x, root)),
        ("requires a single-element tensor list", lambda: group.reduce([x, x], 0)),
        ("must all have the same type", lambda: group.allreduce_coalesced([x, double])),
        ("unsupported layout", lambda: group.allreduce_coalesced([sparse])),
        ("requires non-empty input tensor list", lambda: group.allgather([], [])),
        ("lists to have the same length", lambda: group.allgather([], [x])),
        ("invalid output tensor list at index 0", lambda: group.allgather([[x, x]], [x])),
        ("single-element output list, got one of 0", lambda: group.gather([], [x], 0)),
        ("Incorrect output list size 2. Output", lambda: group.gather([[x, x]], [x], 0)),
        ("Incorrect input list size 2. Input", lambda: group.scatter([x], [[x, x]], 0)),
        ("equal to world size", lambda: dist.all_gather_coalesced([[x], [x]], [x])),
        ("invalid size of output tensor", lambda: dist.all_gather_coalesced([[y]], [x])),
        ("of one length", lambda: group.reduce_scatter_tensor_coalesced([], [])),
    ]
    try:
        for words, call in cases:
            for kind in (RuntimeError, ValueError):
                with pytest.raises(kind, match=words):
                    call()
        with pytest.raises(TypeError, match="should be a list of lists"):
            dist.all_gather_coalesced([x], [x])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="should not be the same as the rank"):
            dist.send(x, 0)
    finally:
        dist.destroy_process_group()


def test_at_the_level_detail_a_mismatch_is_raised_by_the_call() -> None:
    def member(rank: int) -> str:
        group: Any = dist.group.WORLD
        with pytest.raises(dist.DistBackendError, match="called differently") as found:
            group.allreduce([fd.ones(2 + rank)])
        return str(found.value)

    dist.set_debug_level(dist.DebugLevel.DETAIL)
    try:
        assert len(run_members(2, member)) == 2
    finally:
        dist.set_debug_level(dist.DebugLevel.OFF)


def test_a_profile_shows_collectives_and_messages_with_their_shapes() -> None:
    def member(rank: int) -> list[Any]:
        if rank:
            dist.recv(fd.zeros(3), 0)
            dist.recv(fd.zeros(2))
            dist.all_reduce_coalesced([fd.ones(1), fd.ones(4)])
            dist.all_reduce(fd.zeros(3, dtype=fd.complex64))
            return []
        with profile(record_shapes=True) as prof:
            dist.send(fd.zeros(3), 1)
            dist.send(fd.zeros(2), 1)
            dist.all_reduce_coalesced([fd.ones(1), fd.ones(4)])
            dist.all_reduce(fd.zeros(3, dtype=fd.complex64))
        return [event for event in prof.function_events if event.name.startswith("threads:")]

    events = [one for one in run_members(2, member)[0] if one.name != "threads:recv"]
    sends = [one.input_shapes for one in events if one.name == "threads:send"]
    sums = [one.input_shapes for one in events if one.name == "threads:all_reduce_coalesced"]
    assert sends == [[[3]], [[2]]] and sums[0] == [[1], [4]]
    # Collectives reduce complex numbers as pairs of real numbers.
    assert [one.input_shapes for one in events if one.name == "threads:all_reduce"] == [[[3, 2]]]
    assert all(one.is_async for one in events)


def test_a_subclass_of_a_program_gives_ranks_names_and_works() -> None:
    class Own(dist.ProcessGroup):
        def getRank(self) -> int:
            return 3

        def getSize(self) -> int:
            return 5

        def getBackendName(self) -> str:
            return "own"

        def setGroupName(self, name: str) -> None:
            self.kept = f"py:{name}"

        def getGroupName(self) -> str:
            return self.kept

    class Waited(dist.Work):
        def wait(self, timeout: Any) -> bool:  # type: ignore[override]
            return bool(waits.append(timeout))

    class Carrier:
        def allreduce(self, tensors: Any, options: Any) -> Any:
            return Waited()

    waits: list[Any] = []
    group = Own(0, 1)
    group._set_group_name("name")
    assert (group.rank(), group.size(), group.name(), group.group_name) == (3, 5, "own", "py:name")
    kept = dict(dist.Backend._plugins), list(dist.Backend.backend_list)
    dist.Backend.register_backend("waited", lambda *_: Carrier())
    try:
        dist.init_process_group("waited", store=dist.HashStore(), rank=0, world_size=1)
        dist.all_reduce(fd.ones(1))
        assert set(waits) == {timedelta(0)}
    finally:
        dist.destroy_process_group()
        dist.Backend._plugins.clear()
        dist.Backend._plugins.update(kept[0])
        dist.Backend.backend_list[:] = kept[1]
        del dist.Backend.backend_capability["waited"], dist.Backend.WAITED  # type: ignore[attr-defined]


def test_a_work_of_a_future_ends_as_the_future_does() -> None:
    good: Any = fd.futures.Future()
    bad: Any = fd.futures.Future()
    works = [c10d._create_work_from_future(one) for one in (good, bad)]
    assert not works[0].is_completed()
    good.set_result([1])
    bad.set_exception(KeyError("no"))
    assert works[0].wait() and works[0].result() == [1] and works[0].get_future().wait() == [1]
    with pytest.raises(KeyError, match="no"):
        works[1].wait()


def test_reductions_can_be_pickled_and_groups_be_listed() -> None:
    for op in (dist.ReduceOp.SUM, dist.ReduceOp(dist.ReduceOp.MAX)):
        assert pickle.loads(pickle.dumps(op)) == op
    before, here.world = here.world, World()
    try:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        group: Any = dist.group.WORLD
        view = c10d._world
        assert view.default_pg is group and view.group_count == 1
        assert view.pg_names == {group: "0"} and view.pg_group_ranks == {group: {0: 0}}
        assert view.pg_map == {group: ("gloo", group.get_group_store())}
        assert view.pg_backend_config[group].startswith("cpu:gloo")
        assert c10d._get_process_group_store(group) is group.get_group_store()
        local = dist.new_group([0], use_local_synchronization=True)
        assert local is not None and dist.get_pg_count() == 2
    finally:
        dist.destroy_process_group()
        here.world = before


def test_a_barrier_by_the_store_says_how_many_came() -> None:
    store = dist.HashStore()
    c10d._store_based_barrier(0, store, "one", 1, timedelta(seconds=1))
    with pytest.raises(dist.DistStoreError, match=r"based barrier on rank 0, .* 1 of 2 processes"):
        c10d._store_based_barrier(0, store, "two", 2, timedelta(milliseconds=1))

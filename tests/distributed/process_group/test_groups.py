"""The default group and others: creation, ranks, names, and destruction."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist.core.errors import CollectiveError
from fastdist.distributed import distributed_c10d as c10d
from fastdist.distributed.process_group.alone import Alone
from fastdist.distributed.process_group.caller import caller_line
from tests.distributed.process_group.thread_members import ThreadTransport, run_members


@pytest.fixture
def alone() -> Any:
    """Yield a default group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


def test_before_and_after_there_is_no_group() -> None:
    assert not dist.is_initialized() and dist.group.WORLD is dist.GroupMember.WORLD is None
    for call in (dist.get_rank, dist.get_world_size, dist.barrier, dist.get_backend):
        with pytest.raises(
            ValueError,
            match="Default process group has not been initialized, please make sure to call "
            "init_process_group",
        ):
            call()
    dist.destroy_process_group()
    assert dist.get_pg_count() == 0


def test_a_second_default_group_is_refused_and_a_second_end_is_harmless(alone: Any) -> None:
    with pytest.raises(ValueError, match="trying to initialize the default process group twice!"):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    assert dist.is_initialized() and dist.get_pg_count() == 1
    dist.destroy_process_group()
    dist.destroy_process_group()
    with pytest.raises(CollectiveError, match="'0' was destroyed"):
        alone.barrier()


def test_one_member_needs_no_transport(alone: Any) -> None:
    assert isinstance(alone._carriers["gloo"], Alone)
    x, out = fd.arange(3.0), fd.zeros(3)
    dist.all_reduce(x)
    dist.all_gather([out], x)
    part = fd.zeros(3)
    dist.reduce_scatter_tensor(part, x)
    dist.all_to_all_single(out, x)
    dist.gather(x, [out])
    dist.scatter(part, [x])
    dist.broadcast(x, 0)
    dist.reduce(x, 0)
    dist.barrier()
    dist.monitored_barrier()
    objects: list[Any] = [None]
    dist.all_gather_object(objects, "a")
    assert out.tolist() == part.tolist() == [0.0, 1.0, 2.0] and objects == ["a"]
    with pytest.raises(ValueError, match="destination rank should not be the same as the rank"):
        dist.send(x, 0)


def test_arguments_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    store = dist.HashStore()
    cases: list[tuple[Any, str, Any]] = [
        (ValueError, "Cannot specify both init_method and store",
            {"store": store, "init_method": "env://", "rank": 0, "world_size": 1}),
        (ValueError, "world_size must be positive", {"store": store}),
        (TypeError, "datetime.timedelta", {"timeout": 3}),
        (ValueError, "Unknown backend 'qwyx'", {"backend": "qwyx"}),
        (ValueError, "Invalid device:backend pairing", {"backend": "cpu:gloo,cuda"}),
        (ValueError, "Duplicate device type cpu", {"backend": "cpu:gloo,cpu:zmq"}),
        (RuntimeError, "have NCCL built in",
            {"backend": "nccl", "store": store, "rank": 0, "world_size": 1}),
        (RuntimeError, "have MPI built in",
            {"backend": "mpi", "store": store, "rank": 0, "world_size": 1}),
        (ValueError, "rank of this worker is not known", {}),
    ]  # fmt: skip
    for kind, words, options in cases:
        with pytest.raises(kind, match=words):
            dist.init_process_group(**options)
        assert not dist.is_initialized()


def test_places_come_from_urls_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dist.init_process_group("zmq", f"file://{tmp_path}/store", rank=0, world_size=1)
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "zmq")
    dist.destroy_process_group()
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    for _ in range(2):
        dist.init_process_group()
        assert dist.get_backend() == "gloo" and dist.get_backend_config() == "cpu:gloo,cuda:gloo"
        dist.destroy_process_group()


def test_groups_have_their_own_ranks_names_and_backends() -> None:
    def member(rank: int) -> list[Any]:
        even = dist.new_group([2, 0], timeout=timedelta(seconds=7))
        turned = dist.new_group([2, 0], sort_ranks=False)
        local = dist.new_group([rank], use_local_synchronization=True)
        if rank == 1:
            assert even == dist.GroupMember.NON_GROUP_MEMBER
            assert dist.get_rank(even) == dist.get_world_size(even) == -1
            with pytest.warns(UserWarning, match="Running all_reduce on global rank 1 which does "):
                assert dist.all_reduce(fd.ones(1), group=even) is None
            with pytest.raises(ValueError, match="is not registered"):
                dist.get_global_rank(even, 0)
        else:
            assert dist.get_process_group_ranks(even) == [0, 2]
            assert dist.get_process_group_ranks(turned) == [2, 0]
            assert [dist.get_global_rank(turned, i) for i in (0, 1)] == [2, 0]
            assert dist.get_group_rank(even, 2) == 1 and dist.get_rank(turned) == (rank == 0)
            assert even._timeout == timedelta(seconds=7) and even.name() == "threads"
            with pytest.raises(ValueError, match="Global rank 1 is not part of group"):
                dist.get_group_rank(even, 1)
            with pytest.raises(ValueError, match="Group rank 2 is not part of group"):
                dist.get_global_rank(even, 2)
            x = fd.full((1,), float(rank))
            dist.broadcast(x, 2, group=even)
            assert x.item() == 2.0
            assert c10d._resolve_process_group(even.group_name) is even
        assert dist.get_rank(local) == 0 and local.size() == 1
        count = dist.get_pg_count()
        if rank != 1:
            dist.destroy_process_group(even)
            with pytest.raises(ValueError, match="has been destroyed"):
                dist.destroy_process_group(even)
        dist.barrier()
        return [count, dist.get_process_group_ranks(None), dist.group.WORLD.group_name]

    assert run_members(3, member) == [[c, [0, 1, 2], "0"] for c in (4, 2, 4)]


def test_groups_of_equal_size_and_splits() -> None:
    def member(rank: int) -> list[Any]:
        own, groups = dist.new_subgroups(2)
        half = dist.split_group(split_ranks=[[0, 3], [1]])
        for words, call in (
            ("must be positive", lambda: dist.new_subgroups(0)),
            ("must not exceed the world size", lambda: dist.new_subgroups(8)),
            ("must be divisible by", lambda: dist.new_subgroups(3)),
            ("Default group size only", dist.new_subgroups),
            ("cannot be empty", lambda: dist.new_subgroups_by_enumeration([])),
            ("appeared in both", lambda: dist.new_subgroups_by_enumeration([[0], [0]])),
            ("cannot be None or empty", dist.split_group),
            ("in two lists", lambda: dist.split_group(split_ranks=[[0], [0]])),
            ("not in 0 to 3", lambda: dist.split_group(split_ranks=[[7]])),
            ("Rank 9 is out of range", lambda: dist.new_group([9])),
            ("duplicate entries", lambda: dist.new_group([0, 0])),
            ("is empty", lambda: dist.new_group([])),
        ):
            with pytest.raises(ValueError, match=words):
                call()
        x = fd.ones(1)
        dist.all_reduce(x, group=own)
        others = [one == -100 for one in groups]
        return [own._ranks, others, None if half is None else half._ranks, x.item()]

    assert run_members(4, member) == [
        [(0, 1), [False, True], (0, 3), 2.0],
        [(0, 1), [False, True], (1,), 2.0],
        [(2, 3), [True, False], None, 2.0],
        [(2, 3), [True, False], (0, 3), 2.0],
    ]


def test_groups_and_threads_at_once() -> None:
    def member(rank: int) -> list[float]:
        groups = [dist.new_group([0, 1, 2]) for _ in range(4)]
        found = [0.0] * 4

        def work(index: int) -> None:
            for step in range(20):
                x = fd.full((3,), float(index + step))
                groups[index].allreduce([x]).wait()
                found[index] += x.sum().item()

        threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    expected = [sum(9.0 * (index + step) for step in range(20)) for index in range(4)]
    assert run_members(3, member) == [expected] * 3


def test_another_round_meets_its_own_members() -> None:
    store = dist.HashStore()

    def member(rank: int) -> None:
        dist.destroy_process_group()
        for _ in range(3):
            dist.init_process_group("threads", store=store, rank=rank, world_size=2)
            x = fd.ones(1)
            dist.all_reduce(x)
            assert x.item() == 2.0
            dist.destroy_process_group()

    run_members(2, member)


def test_registered_backends_carry_groups() -> None:
    made: list[Any] = []

    class Mine(dist.ProcessGroup):
        def allreduce(self, tensors: Any, opts: Any = None) -> Any:
            tensors[0].fill_(opts.reduceOp + 40)
            return finished_work()

    def create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
        made.append((rank, size, timeout))
        return Mine(rank, size)

    def extended(options: Any, more: Any) -> Any:
        made.append((options.group_rank, options.global_ranks_in_group, more))
        return Alone()

    try:
        dist.Backend.register_backend("mine", create)
        dist.Backend.register_backend("ours", extended, extended_api=True, devices="cpu")
        with pytest.raises(RuntimeError, match="MINE c10d backend already exists"):
            dist.Backend.register_backend("mine", create)
        assert dist.is_backend_available("Mine") and dist.Backend.MINE == "mine"  # type: ignore[attr-defined]
        dist.init_process_group("mine", store=dist.HashStore(), rank=0, world_size=1)
        x = fd.ones(1)
        dist.all_reduce(x, dist.ReduceOp.MAX)
        assert x.item() == 44.0 and dist.get_backend() == "mine"
        group = dist.new_group([0], backend="cpu:ours", pg_options={"a": 1})
        dist.all_reduce(x, group=group)
        assert made == [(0, 1, dist.default_pg_timeout), (0, [0], {"a": 1})]
    finally:
        dist.destroy_process_group()
        for name in ("mine", "ours"):
            dist.Backend.backend_list.remove(name)
            dist.Backend.backend_capability.pop(name)
            dist.Backend._plugins.pop(name.upper())
            delattr(dist.Backend, name.upper())


def finished_work() -> Any:
    from fastdist.distributed.process_group.work import finished

    return finished()


def test_a_device_without_a_backend_is_refused(alone: Any) -> None:
    group = dist.new_group([0], backend="cpu:gloo")
    with pytest.raises(RuntimeError, match="No backend type associated with device type sim"):
        dist.all_reduce(fd.ones(2, device="sim:0"), group=group)


def test_tensors_of_devices_pass_through_the_memory_of_the_cpu() -> None:
    def member(rank: int) -> list[float]:
        dist.group.WORLD._config.device_backend_map["sim"] = "threads"
        x = fd.ones(2, device="sim:0")
        dist.all_reduce(x)
        out = fd.zeros(4, device="sim:0")
        dist.all_gather_into_tensor(out, x + rank)
        assert str(x.device) == "sim:0"
        return [*x.tolist(), *out.tolist()]

    assert run_members(2, member) == [[2.0, 2.0, 2.0, 2.0, 3.0, 3.0]] * 2


def test_the_line_is_the_innermost_one_outside_of_fastdist() -> None:
    assert caller_line() == f"{os.path.basename(__file__)}:{line_here() - 0}"
    assert caller_line().startswith("test_groups.py:")


def line_here() -> int:
    import sys

    return sys._getframe(1).f_lineno


def test_a_member_without_a_store_cannot_have_others() -> None:
    with pytest.raises(TypeError, match=r"takes \(rank, size\)"):
        dist.ProcessGroup(1)
    assert dist.ProcessGroup(1, 2).rank() == 1 and isinstance(ThreadTransport, type)
    assert "rank 1 of 2" in repr(dist.ProcessGroup(1, 2))


def test_private_names_that_packages_use(alone: Any) -> None:
    assert c10d._get_default_group() is alone and not c10d._rank_not_in_group(None)
    assert c10d._rank_not_in_group(dist.GroupMember.NON_GROUP_MEMBER)
    assert c10d._get_process_group_name(alone) == "0" == alone.group_name
    assert c10d._get_group_size(None) == c10d._get_group_size_by_name("0") == 1
    assert str(c10d._get_pg_default_device()) == "cpu"
    assert c10d._get_default_store() is alone.get_group_store()
    with pytest.raises(ValueError, match="there is no process group 'qwyx'; known: '0'"):
        c10d._resolve_process_group("qwyx")
    with pytest.raises(ValueError, match="this process is not in that group"):
        dist.get_backend(dist.GroupMember.NON_GROUP_MEMBER)
    assert alone._get_backend(fd.device("cpu")) is alone
    assert [one.type for one in alone._device_types] == ["cpu", "cuda"]
    alone.set_timeout(timedelta(seconds=3))
    assert alone._timeout == timedelta(seconds=3) and alone._get_sequence_number_for_group() == 0


def test_an_abort_ends_calls_that_wait() -> None:
    def member(rank: int) -> None:
        if rank:
            ready.wait()
            return
        work: Any = dist.barrier(async_op=True)
        c10d._abort_process_group()
        with pytest.raises(CollectiveError, match="was destroyed, or its members were aborted"):
            work.wait()
        assert not dist.is_initialized()
        ready.set()

    ready = threading.Event()
    run_members(2, member)


def test_methods_of_a_registered_backend_get_the_arguments_and_give_the_work() -> None:
    from fastdist.distributed.process_group import foreign
    from fastdist.distributed.process_group.foreign import ForeignGroup

    class Noted:
        def __init__(self) -> None:
            self.waited = 0

        def wait(self) -> None:
            self.waited += 1

    class Theirs:
        def __getattr__(self, name: str) -> Any:
            def method(*given: Any) -> Noted:
                asked.append((name, given))
                return work

            return method

    asked: list[Any] = []
    work, group = Noted(), ForeignGroup(0, 1)
    group.foreign = Theirs()
    for name in foreign._METHODS:
        assert getattr(group, name)(1, "two") is work and work.waited == 0
        assert asked.pop() == (name, (1, "two"))
        assert getattr(ForeignGroup, name).__name__ == name
        assert name in getattr(ForeignGroup, name).__doc__
    for waits in (False, True):
        assert group.send([], 1, is_async=not waits) is work
        assert work.waited == waits


def test_two_threads_do_not_make_the_default_group_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from fastdist.distributed.process_group import init
    from fastdist.distributed.process_group.world import World, here

    found: list[bool] = []
    monkeypatch.setattr(here, "world", World(), raising=False)
    lock, make = here.world.lock, init._make_default

    def look(*given: Any) -> Any:
        thread = threading.Thread(target=lambda: found.append(lock.acquire(blocking=False)))
        thread.start()
        thread.join()
        return make(*given)

    monkeypatch.setattr(init, "_make_default", look)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    dist.destroy_process_group()
    assert found == [False]


def test_the_default_group_has_all_ranks_in_order_and_those_outside_leave_nothing(
    alone: Any,
) -> None:
    assert alone._ranks == (0,) and alone.group_desc == "default_pg"
    dist.destroy_process_group(dist.GroupMember.NON_GROUP_MEMBER)
    assert dist.is_initialized() and dist.group.WORLD is alone
    for wrong in (3, "0", dist.ProcessGroup(0, 1)):
        with pytest.raises(ValueError, match="Invalid process group specified or has been destr"):
            dist.destroy_process_group(wrong)
    assert dist.is_initialized()


def test_the_end_of_a_group_is_that_of_its_companion(alone: Any) -> None:
    group = dist.new_group([0])
    other = dist.ProcessGroup(0, 1)
    group._companion = other
    dist.destroy_process_group(group)
    assert other._error is group._error and group._companion is None
    with pytest.raises(CollectiveError, match="was destroyed"):
        other._carrier("gloo")


def test_the_gpu_of_a_barrier_is_a_number(alone: Any) -> None:
    import numpy as np

    from fastdist.distributed.process_group.options import BarrierOptions

    assert alone._gpu_of(BarrierOptions()) is None
    for ids in ([3, 1], [np.int64(3)], ["3"]):
        device = alone._gpu_of(BarrierOptions(device_ids=ids))
        assert str(device) == "cuda:3" and type(device.index) is int
    alone.bound_device_id = fd.device("cuda:2")
    assert str(alone._gpu_of(BarrierOptions(device_ids=[]))) == "cuda:2"


def test_texts_of_calls_are_made_once_and_not_kept_for_ever() -> None:
    from fastdist.distributed.process_group import arrays

    x = fd.ones(2, 3)
    text = arrays.agreed_text(x, "sum")
    assert text == "float32 of shape (2, 3), sum" and arrays.agreed_text(x, "sum") is text
    assert arrays.agreed_text(x) == "float32 of shape (2, 3)"
    for number in range(1030):
        arrays.agreed_text(x, str(number))
    assert len(arrays._texts) <= 1025


def test_a_group_is_found_by_its_ranks_and_its_tag() -> None:
    def member(rank: int) -> None:
        find, tag_of = (
            dist.distributed_c10d._find_pg_by_ranks_and_tag,
            dist.distributed_c10d._get_group_tag,
        )
        pair, again = dist.new_group([0, 1]), dist.new_group([0, 1])
        whole = dist.group.WORLD
        assert find(tag_of(None), [2, 1, 0]) is find("", [0, 1, 2]) is whole
        if rank < 2:
            assert tag_of(pair) != tag_of(again)
            assert find(tag_of(again), [0, 1]) is again and find("", [1, 0]) is pair
        assert find("ptd:other", [0, 1]) is None and find(tag_of(None), [0, 2]) is None

    run_members(3, member)

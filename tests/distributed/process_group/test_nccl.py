"""The backend nccl: on a CPU shim of CuPy with communicators between threads, or on one GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.core.errors import (
    CollectiveError,
    CollectiveLostError,
    CollectiveMismatchError,
    CollectiveTimeoutError,
)
from fastdist.devices.backend import backend_of
from fastdist.distributed import HashStore
from fastdist.distributed import distributed_c10d as dist
from fastdist.distributed.process_group import debug_level, device_watch
from fastdist.distributed.process_group.backends import connections
from tests.distributed.process_group import thread_members
from tests.distributed.process_group.thread_members import run_members
from tests.fibre_shim import nccl
from tests.fibre_shim.installed import cuda_on_fibres, host_traffic

DTYPES = [
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int8",
    "int64",
    "uint8",
    "bool",
    "complex64",
]


@pytest.fixture(autouse=True)
def gpus(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use the CuPy shim unless the test runs on a GPU; CPU messages go between threads."""
    if request.node.get_closest_marker("gpu"):
        yield
        return
    for name in ("zmq", "gloo"):
        monkeypatch.setitem(connections, name, thread_members.connect)
    monkeypatch.setattr(device_watch, "_LOOK_S", 0.005)
    monkeypatch.setattr(device_watch, "_STORE_S", 0.01)
    monkeypatch.setattr(device_watch, "_REPORTS_S", 0.05)
    nccl.calls.clear()
    for _ in cuda_on_fibres(monkeypatch):
        yield


def members(function: Callable[[int], Any], **options: Any) -> list[Any]:
    """Run `function(rank)` in two members, each with a separate GPU."""

    def member(rank: int) -> Any:
        fd.cuda.set_device(rank)
        return function(rank)

    options.setdefault("backend", "nccl")
    return run_members(2, member, **options)


def given(rank: int, *values: float, dtype: str = "float32") -> fd.Tensor:
    made = fd.tensor(values).to(getattr(fd, dtype))
    return made.to(f"cuda:{rank}")


def test_every_collective_moves_what_gpus_hold_and_the_host_never_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ready = threading.Barrier(2)

    def member(rank: int) -> list[Any]:
        x = given(rank, 1 + rank, 2)
        outs = [fd.empty(2, device=f"cuda:{rank}") for _ in range(2)]
        row, wide = fd.empty(4, device=x.device), given(rank, 1, 2, 3, 4) * (rank + 1)
        parts, one = fd.empty(2, device=x.device), fd.empty(2, device=x.device)
        sent, gathered = x.clone(), [fd.empty(2, device=x.device) for _ in range(2)]
        reduced, root, single = x.clone(), x.clone(), fd.empty(4, device=x.device)
        swapped = [fd.empty(2, device=x.device) for _ in range(2)]
        scattered = fd.empty(2, device=x.device)
        ready.wait()
        dist.all_reduce(x)
        dist.all_gather(outs, sent)
        dist.all_gather_into_tensor(row, sent)
        dist.reduce_scatter_tensor(parts, wide)
        dist.reduce_scatter(one, [sent, sent])
        dist.reduce(reduced, dst=1)
        dist.broadcast(root, src=1)
        dist.all_to_all_single(single, wide)
        dist.all_to_all(swapped, [sent, sent * 10])
        dist.gather(sent, gathered if rank == 0 else None, dst=0)
        dist.scatter(scattered, [sent, sent * 3] if rank == 1 else None, src=1)
        if rank == 0:
            dist.send(sent, 1)
        else:
            dist.recv(sent, 0)
        return [
            x, outs, row, parts, one, reduced, root, single, swapped, gathered, scattered,
        ]  # fmt: skip

    log = host_traffic(monkeypatch)
    counted: list[int] = []

    def counting(rank: int) -> list[Any]:
        found = member(rank)
        counted.append(sum(name.endswith(("asnumpy", "synchronize", "async")) for name in log))
        ready.wait()
        return [
            [one.tolist() for one in value] if isinstance(value, list) else value.tolist()
            for value in found
        ]

    first, second = members(counting)
    assert counted == [0, 0]
    x, outs, row, parts, one, reduced, root, single, swapped, gathered, scattered = first
    assert x == [3, 4] and second[0] == [3, 4]
    assert outs == second[1] == [[1, 2], [2, 2]] and row == [1, 2, 2, 2]
    assert parts == [3, 6] and second[3] == [9, 12]
    assert one == [3, 4] and second[4] == [3, 4]
    assert reduced == [1, 2] and second[5] == [3, 4]
    assert root == second[6] == [2, 2]
    assert single == [1, 2, 2, 4] and second[7] == [3, 4, 6, 8]
    assert swapped == [[1, 2], [2, 2]] and second[8] == [[10, 20], [20, 20]]
    assert gathered == [[1, 2], [2, 2]] and scattered == [2, 2] and second[10] == [6, 6]


def test_reductions_of_every_dtype() -> None:
    def member(rank: int) -> list[Any]:
        found = []
        for dtype in DTYPES:
            x = given(rank, 1, rank, dtype=dtype)
            dist.all_reduce(x)
            found.append((str(x.dtype), [complex(one).real for one in x.tolist()]))
        return found

    first, second = members(member)
    assert first == second
    assert [values for name, values in first if name != "fastdist.bool"] == [[2, 1]] * 8
    assert [values for name, values in first if name == "fastdist.bool"] == [[1, 1]]


def test_bitwise_reductions_of_booleans() -> None:
    def member(rank: int) -> list[Any]:
        found = []
        for op in (dist.ReduceOp.BOR, dist.ReduceOp.BAND, dist.ReduceOp.SUM, dist.ReduceOp.MIN):
            x = given(rank, 0, rank, 1, dtype="bool")
            dist.all_reduce(x, op)
            found.append(x.tolist())
        return found

    first, second = members(member)
    some, both = [False, True, True], [False, False, True]
    assert first == second == [some, both, some, both]


def test_means_premultiplied_sums_minima_and_what_nccl_does_not_have() -> None:
    def member(rank: int) -> list[Any]:
        found = []
        for op in (
            dist.ReduceOp.AVG,
            dist.ReduceOp.MAX,
            dist.ReduceOp.MIN,
            dist.ReduceOp.PRODUCT,
            dist._make_nccl_premul_sum(0.5),
            dist._make_nccl_premul_sum(given(rank, 2)),
        ):
            x = given(rank, 2.0 + rank, 8.0)
            dist.all_reduce(x, op)
            found.append(x.tolist())
        x = given(rank, 1, 1, dtype="complex64") * (1 + rank)
        dist.all_reduce(x, dist.ReduceOp.AVG)
        found.append(x.tolist())
        with pytest.raises(
            CollectiveError, match=r"Cannot use ReduceOp.BXOR with NCCL.*all_gather"
        ):
            dist.all_reduce(given(rank, 1, dtype="int32"), dist.ReduceOp.BXOR)
        # 1 | 2 is 3, which is not the maximum.
        with pytest.raises(CollectiveError, match=r"Cannot use ReduceOp.BOR with NCCL"):
            dist.all_reduce(given(rank, 1 + rank, dtype="uint8"), dist.ReduceOp.BOR)
        with pytest.raises(CollectiveError, match="NCCL does not reduce int16; convert"):
            dist.all_reduce(given(rank, 1, dtype="int16"))
        return found

    first, second = members(member)
    assert first == second
    assert first == [[2.5, 8], [3, 8], [2, 8], [6, 64], [2.5, 8], [10, 32], [1.5, 1.5]]


def test_strided_tensors_are_packed_and_written_back() -> None:
    def member(rank: int) -> list[Any]:
        base = fd.arange(6.0, device=f"cuda:{rank}").reshape(2, 3)
        before = base._version
        dist.all_reduce(base.t())
        assert base._version > before
        rows = fd.zeros(3, 2, device=base.device).t()
        dist.broadcast(rows, src=0)
        empty = fd.empty(0, device=base.device)
        dist.all_reduce(empty)
        dist.all_gather([fd.empty(0, device=base.device) for _ in range(2)], empty)
        return [base.tolist(), rows.shape]

    assert members(member) == [[[[0, 2, 4], [6, 8, 10]], (2, 3)]] * 2


def test_a_work_lets_the_stream_wait_and_not_the_program() -> None:
    gate = threading.Event()

    def member(rank: int) -> list[Any]:
        x = given(rank, 1, 2)
        dist.all_reduce(x.clone())
        if rank == 1:
            assert gate.wait(10)
            dist.all_reduce(x)
            return x.tolist()
        work: Any = dist.all_reduce(x, async_op=True)
        assert not work.is_completed() and work.exception() is None and not work.is_success()
        future = work.get_future()
        assert future.done()
        assert work.wait()  # only the stream waits; the other member has not called yet
        assert not work.is_completed()
        gate.set()
        assert (x * 10).tolist() == [20, 40]
        assert work.wait(timeout=timedelta(seconds=5)) and work.is_completed()
        assert work.is_success() and work.result()[0] is x
        assert future.then(lambda done: done.value()[0] + 1).wait().tolist() == [3, 5]
        return x.tolist()

    assert members(member) == [[2, 4]] * 2


def test_the_memory_of_a_tensor_stays_until_the_side_stream_has_passed() -> None:
    gate = threading.Event()

    def member(rank: int) -> None:
        dist.all_reduce(given(rank, 1))
        if rank == 1:
            assert gate.wait(10)
            dist.all_reduce(given(rank, *range(64)))
            return
        backend: Any = backend_of("cuda")
        limbo = backend.allocator._limbo
        x = given(rank, *range(64))
        dist.all_reduce(x, async_op=True)
        address = x.data_ptr()
        del x
        fd.empty(64, device="cuda:0")  # allocating collects freed memory
        assert address in [pointer.ptr for _, pointer in list(limbo)]
        gate.set()

    members(member)


def test_collectives_are_captured_in_a_graph_and_replayed() -> None:
    def member(rank: int) -> list[Any]:
        x = given(rank, 1 + rank, 2)
        total = fd.zeros(2, device=x.device)
        early = pytest.raises(CollectiveError, match="members cannot connect while a graph is")
        with early, fd.cuda.graph(fd.cuda.CUDAGraph()):
            dist.all_reduce(total)
        dist.all_reduce(total)
        graph = fd.cuda.CUDAGraph()
        with fd.cuda.graph(graph):
            y = x * 2
            work: Any = dist.all_reduce(y, async_op=True)
            z = x + 1
            work.wait()
            total.copy_(y + z)
        found = []
        for _ in range(2):
            graph.replay()
            found.append(total.tolist())
            x.add_(1)
        return found

    # A process captures one graph at a time, and all members are in this process.
    assert run_members(1, member, backend="nccl") == [[[4, 7], [7, 10]]]


def test_messages_in_pairs_and_in_batches() -> None:
    def member(rank: int) -> list[Any]:
        other = 1 - rank
        x, room = given(rank, 5 + rank), fd.empty(1, device=f"cuda:{rank}")
        if rank == 0:
            dist.send(x, other)
            assert dist.recv(room, other) == other
        else:
            work: Any = dist.irecv(room, other)
            work.wait()
            assert work.source_rank() == other
            dist.isend(x, other)
        found = [room.tolist()]
        wide = fd.zeros(2, 2, device=x.device)
        ops = [
            dist.P2POp(dist.isend, x * 2, other),
            dist.P2POp(dist.irecv, wide[:, 0][:1], other),
        ]
        works = dist.batch_isend_irecv(ops)
        assert len(works) == 1
        works[0].wait()
        found.append(wide.tolist())
        with pytest.raises(CollectiveError, match="does not support receiving from any source"):
            dist.recv(room)
        return found

    assert members(member) == [[[6], [[12, 0], [0, 0]]], [[5], [[10, 0], [0, 0]]]]


def test_calls_of_a_block_start_together_and_where_the_tensors_are() -> None:
    def member(rank: int) -> list[Any]:
        x, y = given(rank, 1), given(rank, 2, 3)
        with dist._coalescing_manager():
            dist.all_reduce(x)
            dist.all_reduce(y)
        rows = [fd.empty(2, device=x.device), fd.empty(4, device=x.device)]
        with dist._coalescing_manager(async_ops=True) as manager:
            for out, one in zip(rows, (x, y)):
                dist.all_gather_into_tensor(out, one)
        manager.wait()
        parts = [fd.empty(1, device=x.device), fd.empty(2, device=x.device)]
        with dist._coalescing_manager():
            for part, one in zip(parts, rows):
                dist.reduce_scatter_tensor(part, one, op=dist.ReduceOp.AVG)
        return [one.tolist() for one in (x, y, *rows, *parts)]

    expected = [[2], [4, 6], [2, 2], [4, 6, 4, 6], [2], [4, 6]]
    assert members(member) == [expected] * 2


def test_barrier_objects_and_a_group_of_both_devices() -> None:
    def member(rank: int) -> list[Any]:
        dist.barrier(device_ids=[rank])
        objects = [None, None]
        dist.all_gather_object(objects, {"rank": rank})
        host = fd.tensor([1.0])
        with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
            dist.all_reduce(host)
        both: Any = dist.new_group(backend="cpu:gloo,cuda:nccl")
        gpu = given(rank, 1)
        dist.all_reduce(host, group=both)
        dist.all_reduce(gpu, group=both)
        assert dist.get_backend_config(both) == "cpu:gloo,cuda:nccl"
        assert both._get_sequence_number_for_group() == 2
        dist.monitored_barrier(timeout=timedelta(seconds=10))
        return [objects, host.tolist(), gpu.tolist()]

    assert members(member) == [[[{"rank": 0}, {"rank": 1}], [2], [2]]] * 2


def test_the_gpu_of_init_is_connected_at_once_and_two_members_of_one_gpu_are_refused() -> None:
    def same(rank: int) -> None:
        with pytest.raises(CollectiveError, match=r"Duplicate GPU detected: rank \d and rank \d"):
            dist.all_reduce(fd.ones(1, device="cuda:0"))

    run_members(2, same, backend="nccl")

    def bound(rank: int) -> None:
        carrier: Any = dist._get_default_group()._carriers["nccl"]
        assert list(carrier._parts) == [(0, None)]
        dist.barrier()

    run_members(1, bound, backend="nccl", device_id=fd.device("cuda:0"))


def test_with_detail_a_mismatch_is_an_error_with_the_lines_of_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    monkeypatch.setattr(debug_level, "_debug_level", None)  # the level is read once per process

    def member(rank: int) -> str:
        dist.all_reduce(given(rank, 1))
        dist.batch_isend_irecv([
            dist.P2POp(dist.isend, given(rank, 1), 1 - rank),
            dist.P2POp(dist.irecv, given(rank, 1), 1 - rank),
        ])[0].wait()  # fmt: skip
        dist.barrier()
        x = given(rank, 1, 2) if rank == 0 else given(rank, 1, dtype="float64")
        with pytest.raises(CollectiveMismatchError) as caught:
            dist.all_reduce(x)
        return str(caught.value)

    for text in members(member):
        assert text.count("test_nccl.py:") == 2 and "float32 of shape (2,)" in text
    # No GPU received a mismatched call.
    names = sorted(name for name, _ in nccl.calls)
    assert names == ["allReduce"] * 4 + ["recv"] * 2 + ["send"] * 2


def test_a_member_that_does_not_come_is_named_and_ends_the_group() -> None:
    done = threading.Event()

    def member(rank: int) -> str:
        dist.all_reduce(given(rank, 1))
        if rank == 1:
            assert done.wait(20)
            return ""
        work: Any = dist.all_reduce(given(rank, 1), async_op=True)
        try:
            with pytest.raises(CollectiveTimeoutError, match="all_reduce") as caught:
                work.wait(timedelta(seconds=15))
            with pytest.raises(CollectiveTimeoutError):
                dist.all_reduce(given(rank, 1))
            assert work.is_completed() and not work.is_success()
            assert isinstance(work.exception(), CollectiveTimeoutError)
        finally:
            done.set()
        return str(caught.value)

    text, _ = members(member, timeout=timedelta(seconds=0.5))
    assert "rank 1 did not come (its last was all_reduce at test_nccl.py:" in text


@pytest.mark.parametrize("status", [6, 5])
def test_what_nccl_reports_later_fails_all_members_by_name(status: int) -> None:
    kind = CollectiveLostError if status == 6 else CollectiveError
    ended = threading.Barrier(2)

    def member(rank: int) -> str:
        x = given(rank, 1)
        dist.all_reduce(x)
        other = dist.new_group([rank], use_local_synchronization=True, backend="nccl")
        dist.all_reduce(x, group=other)
        if rank == 0:
            work: Any = dist.all_reduce(x, async_op=True)
            carrier: Any = dist._get_default_group()._carriers["nccl"]
            carrier._parts[0, None].communicator._native.error = status
            with pytest.raises(kind) as caught:
                work.wait(timedelta(seconds=15))
        else:
            # This member's collective never ends; the store has the reason.
            group: Any = dist._get_default_group()
            pair = fd.empty(1, device="cuda:1")
            messages = dist.P2POp(dist.irecv, pair, 0)
            with pytest.raises(kind) as caught:
                dist.batch_isend_irecv([messages])[0].wait(timedelta(seconds=15))
            assert group.rank() == 1
        ended.wait()
        dist.all_reduce(x, group=other)  # another group still works
        return str(caught.value)

    first, second = members(member)
    assert "NCCL" in first and "called at test_nccl.py:" in first
    assert second.startswith("rank 0 of the group failed: ") and first in second


def test_abort_ends_what_waits() -> None:
    aborted = threading.Event()

    def member(rank: int) -> None:
        dist.all_reduce(given(rank, 1))
        group: Any = dist._get_default_group()
        if rank == 1:
            assert aborted.wait(20)
            return
        work: Any = dist.all_reduce(given(rank, 1), async_op=True)
        group.abort()
        aborted.set()
        with pytest.raises(CollectiveError, match="was destroyed, or its members were aborted"):
            work.wait()
        with pytest.raises(CollectiveError, match="was destroyed"):
            dist.all_reduce(given(rank, 1))

    members(member)


def test_tensors_of_two_devices_are_refused() -> None:
    def member(rank: int) -> None:
        x = given(0, 1)
        with pytest.raises(RuntimeError, match="to be on one device, cuda:0, but got one on cpu"):
            dist.all_gather_into_tensor(x, fd.ones(1))

    run_members(1, member, backend="nccl")


def test_sparse_sums_gather_what_all_members_have() -> None:
    def member(rank: int) -> list[float]:
        at = fd.tensor([[0, 1 + rank]]).to(f"cuda:{rank}")
        x = fd.sparse_coo_tensor(at, given(rank, 1, 2), (4,))
        dist.all_reduce(x)
        return x.to_dense().tolist()  # type: ignore[no-any-return]

    assert members(member) == [[2, 2, 2, 0]] * 2


def test_availability_follows_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dist.is_nccl_available() and dist.is_backend_available("nccl")
    assert repr(dist.BackendConfig(None)) == "cpu:gloo,cuda:nccl"
    monkeypatch.setattr(nccl, "available", False)
    assert not dist.is_nccl_available()
    assert repr(dist.BackendConfig(None)) == "cpu:gloo,cuda:gloo"
    with pytest.raises(RuntimeError, match="doesn't have NCCL built in: CuPy does not find NCCL"):
        dist.init_process_group("nccl", store=HashStore(), rank=0, world_size=1)


@pytest.mark.gpu
def test_one_gpu_is_a_group_of_its_own() -> None:
    def member(rank: int) -> None:
        values = np.arange(6, dtype=np.float32)
        x = fd.tensor(values, device="cuda")
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX):
            dist.all_reduce(x, op)
            assert (x.cpu().numpy() == values).all()
        half = x.to(fd.bfloat16)
        work: Any = dist.all_reduce(half, async_op=True)
        work.wait()
        work.wait(timedelta(seconds=20))
        assert work.is_completed() and (half.float().cpu().numpy() == values).all()
        out = fd.empty(6, device="cuda")
        dist.all_gather_into_tensor(out, x)
        dist.reduce_scatter_tensor(out, x)
        dist.all_to_all_single(out, x)
        dist.broadcast(out, src=0)
        outs = [fd.empty(6, device="cuda")]
        dist.gather(x, outs)
        dist.barrier()
        assert (out.cpu().numpy() == values).all() and (outs[0].cpu().numpy() == values).all()

    run_members(1, member, backend="nccl", timeout_s=60.0)


@pytest.mark.gpu
def test_a_graph_on_a_gpu_holds_collectives() -> None:
    def member(rank: int) -> None:
        x = fd.ones(1024, device="cuda")
        dist.all_reduce(x)
        graph = fd.cuda.CUDAGraph()
        with fd.cuda.graph(graph):
            y = x * 2
            work: Any = dist.all_reduce(y, async_op=True)
            work.wait()
            z = y + 1
        x.fill_(3)
        graph.replay()
        assert (z.cpu().numpy() == 7).all()

    run_members(1, member, backend="nccl", timeout_s=60.0)

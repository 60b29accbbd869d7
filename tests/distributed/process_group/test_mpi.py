"""The backend mpi: with a stand-in for mpi4py, and in jobs of OpenMPI and MPICH."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fastdist as fd
from fastdist.core.errors import (
    CollectiveError,
    CollectiveLostError,
    CollectiveMismatchError,
    CollectiveTimeoutError,
)
from fastdist.distributed import distributed_c10d as dist
from fastdist.distributed.process_group import mpi, mpi_library
from fastdist.distributed.process_group.transport import Call
from fastdist.distributed.process_group.world import World, here
from tests.distributed.process_group import thread_mpi
from tests.launch.mpirun import command_of

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


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Return a function that runs another function in threads that act as MPI's members."""
    monkeypatch.setattr(mpi_library, "why_missing", lambda: "")
    for module in (mpi_library, mpi):
        monkeypatch.setattr(module, "library", lambda: thread_mpi.MPI)
    monkeypatch.setattr(mpi, "_SPINS", 0)
    monkeypatch.setattr(mpi, "_REPORTS_S", 0.05)

    def run(size: int, function: Callable[[int], Any], **options: Any) -> list[Any]:
        world = thread_mpi.World(size)
        found: list[Any] = [None] * size
        errors: list[BaseException] = []

        def member(rank: int) -> None:
            thread_mpi.here.world = thread_mpi.Comm(world, "world", list(range(size)), rank)
            here.world = World()
            try:
                dist.init_process_group("mpi", **options)
                found[rank] = function(rank)
            except BaseException as error:
                error.add_note(f"on rank {rank}:\n{traceback.format_exc()}")
                errors.append(error)
            finally:
                dist.destroy_process_group()

        threads = [threading.Thread(target=member, args=(rank,)) for rank in range(size)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(20)
            assert not one.is_alive(), "a member does not end"
        if errors:
            raise errors[0]
        return found

    return run


def test_every_collective_moves_every_dtype(job: Callable[..., list[Any]]) -> None:
    def member(rank: int) -> list[Any]:
        found: list[Any] = []
        assert (dist.get_rank(), dist.get_world_size()) == (rank, 3)
        assert dist.get_backend() == "mpi"
        for name in DTYPES:
            dtype = getattr(fd, name)
            x = fd.tensor([1.0, rank, 2.0, 0.0]).to(dtype)
            total, root = x.clone(), x.clone()
            dist.all_reduce(total)
            dist.reduce(root, dst=1)
            outs = [fd.empty(4, dtype=dtype) for _ in range(3)]
            dist.all_gather(outs, x)
            part = fd.empty(4, dtype=dtype)
            dist.reduce_scatter(part, outs)
            dist.broadcast(x, src=2)
            row = fd.empty(12, dtype=dtype)
            dist.all_gather_into_tensor(row, x)
            results = [total, root, part, x, row]
            reals = [one.real if one.is_complex() else one for one in results]
            found.append([one.to(fd.float32).tolist() for one in reals])
        return found

    first, second, third = job(3, member)
    for name, one, two, three in zip(DTYPES, first, second, third):
        is_bool = name == "bool"
        total = [1, 1, 1, 0] if is_bool else [3, 3, 6, 0]
        assert one[0] == two[0] == three[0] == total and two[1] == total
        assert one[1] == [1, 0, 1 if is_bool else 2, 0]
        assert three[2] == ([1, 1, 1, 0] if is_bool else [3, 6, 6, 0])
        assert one[3] == two[3] == [1, 1 if is_bool else 2, 1 if is_bool else 2, 0]
        assert one[4] == one[3] * 3


def test_sizes_differ_and_objects_and_messages_pass(job: Callable[..., list[Any]]) -> None:
    def tagged(rank: int) -> list[Any]:
        other = 1 - rank
        sent = fd.arange(3.0) + 10 * rank
        out = fd.empty(2 if rank == 0 else 4)
        splits = ([1, 1], [1, 2]) if rank == 0 else ([2, 2], [1, 2])
        dist.all_to_all_single(out, sent, *splits)
        objects: list[Any] = [None, None]
        dist.all_gather_object(objects, ("rank", rank))
        work: Any = dist.isend(fd.tensor([rank]), other, tag=5)
        room = fd.empty(1, dtype=fd.int64)
        assert dist.recv(room, other if rank else None, tag=5) == other
        work.wait()
        dist.barrier()
        with pytest.raises(CollectiveError, match=r"no store .* call barrier\(\)"):
            dist.monitored_barrier(timeout=timedelta(seconds=10))
        with pytest.raises(ValueError, match="tag 9000000: this MPI has tags from 0 to 524271"):
            dist.send(room, other, tag=9000000)
        return [out.tolist(), objects, room.tolist()]

    objects = [("rank", 0), ("rank", 1)]
    assert job(2, tagged) == [[[0, 10], objects, [1]], [[1, 2, 11, 12], objects, [0]]]


def test_new_groups_are_of_their_members(job: Callable[..., list[Any]]) -> None:
    def member(rank: int) -> list[float]:
        pair: Any = dist.new_group([0, 2])
        x = fd.tensor([float(rank)])
        if rank != 1:
            dist.all_reduce(x, group=pair)
            dist.broadcast(x, group_src=1, group=pair)
        works = [dist.all_reduce(fd.ones(5), async_op=True) for _ in range(3)]
        for work in works:
            assert work is not None and work.wait()
        return x.tolist()  # type: ignore[no-any-return]

    before = thread_mpi.Datatype.num_open
    assert job(3, member) == [[2], [1], [2]]
    assert thread_mpi.Datatype.num_open == before


def test_a_mismatch_names_what_each_called(job: Callable[..., list[Any]]) -> None:
    def member(rank: int) -> str:
        x = fd.ones(2) if rank == 0 else fd.ones(3, dtype=fd.float64)
        with pytest.raises(CollectiveMismatchError) as caught:
            dist.all_reduce(x)
        assert x.tolist() == [1] * len(x)
        room = fd.empty(3)
        if rank == 0:
            dist.send(fd.ones(2), 1)
        else:
            with pytest.raises(CollectiveMismatchError, match=r"float32, 3 numbers.*2 numbers"):
                dist.recv(room, 0)
        outs = [fd.empty(1 + rank), fd.empty(1)]
        with pytest.raises(CollectiveMismatchError, match="rank 0 sends rank 1 another size"):
            dist.all_to_all(outs, [fd.ones(1), fd.ones(1)])
        dist.barrier()
        return str(caught.value)

    texts = job(2, member)
    assert texts[0] == texts[1]
    assert "rank 0 called all_reduce (float32 of shape (2,), sum) at test_mpi.py:" in texts[0]
    assert "rank 1 called all_reduce (float64 of shape (3,), sum) at test_mpi.py:" in texts[0]


def test_who_does_not_come_is_named_and_the_group_ends(job: Callable[..., list[Any]]) -> None:
    done = threading.Event()

    def member(rank: int) -> str:
        if rank == 2:
            assert done.wait(10)
            return ""
        x = fd.ones(2)
        try:
            with pytest.raises(CollectiveTimeoutError) as caught:
                dist.all_reduce(x)
            assert x.tolist() == [1, 1]
            with pytest.raises(CollectiveTimeoutError):
                dist.barrier()
        finally:
            if rank == 0:
                done.set()
        return str(caught.value)

    texts = job(3, member, timeout=timedelta(seconds=0.3))
    assert all("ranks [2] did not come" in text for text in texts[:2])


def test_errors_of_mpi_are_named(job: Callable[..., list[Any]]) -> None:
    def member(rank: int) -> None:
        comm: Any = dist._get_default_group()._carriers["mpi"]._comm
        for number, kind in ((101, CollectiveLostError), (5, CollectiveError)):
            comm.world.failure = thread_mpi.MPIError("process failed", number)
            with pytest.raises(kind, match=r"barrier, called at test_mpi.py.*MPI failed: process"):
                dist.barrier()

    job(1, member)


def test_rank_and_size_are_of_mpi_and_threads_must_be_allowed(
    job: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.warns(UserWarning, match=r"For MPI backend, world_size \(7\) and rank \(3\) are"):
        assert job(1, lambda rank: dist.get_world_size(), rank=3, world_size=7) == [1]
    monkeypatch.setattr(thread_mpi._Library, "thread_level", 1)
    with pytest.raises(CollectiveError, match="needs MPI_THREAD_SERIALIZED"):
        job(1, lambda rank: None)


def test_without_mpi_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in mpi_library._LAUNCHED:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(
        RuntimeError, match=r"doesn't have MPI built in: (mpi4py is not|MPI did not)"
    ):
        dist.init_process_group("mpi")
    assert not dist.is_mpi_available() and not dist.is_backend_available("mpi")


def test_mpi_itself_reduces_what_it_has_types_for_and_members_fold_the_rest(
    job: Callable[..., list[Any]],
) -> None:
    def member(rank: int) -> dict[str, list[str]]:
        names = dist._get_default_group()._carriers["mpi"]._comm.world.names
        found = {}
        for dtype in DTYPES:
            for op in ("SUM", "PRODUCT", "MIN", "MAX", "BAND"):
                is_whole = dtype in ("int8", "int64", "uint8")
                if (op == "BAND" and not is_whole) or (dtype == "complex64" and op != "SUM"):
                    continue
                x = fd.tensor([1.0, 1.0, 0.0]).to(getattr(fd, dtype))
                names.clear()
                dist.all_reduce(x, getattr(dist.ReduceOp, op))
                found[f"{dtype} {op}"] = [*names]
                assert x.tolist() == [1, 1, 0]
        return found

    (found,) = job(1, member)
    digests, mpis, folded = ["allgather"], ["allreduce"], ["alltoallv", "allgather"]
    by_mpi = {name for name, names in found.items() if names == digests + mpis}
    assert all(names in (digests + mpis, digests + folded) for names in found.values())
    floats = {f"{one} {op}" for one in ("float32", "float64") for op in ("SUM", "PRODUCT")}
    whole = {
        f"{one} {op}"
        for one in ("int8", "int64", "uint8")
        for op in ("SUM", "PRODUCT", "MIN", "MAX", "BAND")
    }
    # A complex sum is a sum of pairs, and booleans are reduced as bytes.
    booleans = {f"bool {op}" for op in ("SUM", "PRODUCT", "MIN", "MAX")}
    assert by_mpi == floats | whole | booleans | {"complex64 SUM"}


def test_members_compare_what_they_call_before_each_collective(
    job: Callable[..., list[Any]],
) -> None:
    def member(rank: int) -> None:
        names = dist._get_default_group()._carriers["mpi"]._comm.world.names
        x, one = fd.ones(2), [fd.ones(2)]
        for call, own in (
            (lambda: dist.all_reduce(x), "allreduce"),
            (lambda: dist.reduce(x, 0), "reduce"),
            (lambda: dist.broadcast(x, 0), "bcast"),
            (lambda: dist.all_gather_into_tensor(x, one[0]), "allgather"),
            (lambda: dist.reduce_scatter_tensor(x, one[0]), "reduce_scatter_block"),
            (lambda: dist.all_to_all(one, [x]), "alltoall"),
            (lambda: dist.gather(x, one), "gather"),
            (lambda: dist.scatter(x, one), "scatter"),
        ):
            names.clear()
            call()
            assert names[:2] == ["allgather", own]
        names.clear()
        dist.barrier()
        assert names == ["allgather"]

    job(1, member)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_each_member_folds_an_equal_part(
    job: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    sizes: list[list[int]] = []
    exchange = mpi.MpiTransport._exchange

    def noted(self: Any, call: Any, outs: Any, arrays: Any) -> None:
        sizes.append([one.size for one in arrays])
        exchange(self, call, outs, arrays)

    monkeypatch.setattr(mpi.MpiTransport, "_exchange", noted)

    def member(rank: int) -> list[float]:
        x = (fd.arange(float(count)) + rank).to(fd.float16)
        dist.all_reduce(x)
        return x.tolist()  # type: ignore[no-any-return]

    assert job(3, member) == [[3.0 * one + 3 for one in range(count)]] * 3
    expected = {0: [0, 0, 0], 1: [1, 0, 0], 2: [1, 1, 0], 3: [1, 1, 1], 7: [3, 3, 1]}[count]
    assert sizes == [expected] * 3


def transport_of(most_tag: int) -> mpi.MpiTransport:
    made = object.__new__(mpi.MpiTransport)
    made._most_tag = most_tag
    return made


def test_tags_of_programs_and_of_fastdist_do_not_meet() -> None:
    made = transport_of(100)
    numbers = [made._tag(tag) for tag in (0, 1, 83, mpi._RESERVED, mpi._RESERVED + 1)]
    assert numbers == [32, 34, 198, 2, 4]
    for tag in (-1, 84):
        with pytest.raises(ValueError, match=f"tag {tag}: this MPI has tags from 0 to 83"):
            made._tag(tag)


def test_a_thread_that_waits_asks_often_at_first_and_then_with_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    did: list[Any] = []
    answers = iter([False, False, False, False, True])
    request = SimpleNamespace(Testall=lambda requests, statuses: next(answers))
    made: Any = transport_of(100)
    made._mpi, made._error = SimpleNamespace(Request=request), None
    made._stopped = SimpleNamespace(wait=did.append)
    monkeypatch.setattr(mpi, "_SPINS", 2)
    monkeypatch.setattr(mpi, "library", lambda: thread_mpi.MPI)
    monkeypatch.setattr(mpi.os, "sched_yield", lambda: did.append("yield"))
    call = Call(0, "barrier", "", "", time.monotonic() + 60)
    made._do(call, lambda: "request")
    assert did == ["yield", "yield", mpi._PAUSE_S, mpi._PAUSE_S]


def test_a_message_that_does_not_pass_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = transport_of(100)
    made.rank, made.size = 3, 4
    call = Call(0, "send", "float32, 2 numbers", "a.py:3", 0.0)
    assert str(made._timeout(call)) == (
        "rank 3: a message (float32, 2 numbers) at a.py:3 did not pass in time"
    )


def test_texts_of_calls_fit_and_are_read_again() -> None:
    values = [3, "x" * 400, "y" * 299, "ä" * 20, None]
    words = mpi._text(values)
    assert words.size == mpi._TEXT_BYTES
    assert mpi._read(words) == [3, "x" * 300, "y" * 299, "ä" * 20, None]
    assert mpi._starts([2, 0, 5]) == [0, 2, 2] and mpi._starts([]) == []


PROGRAM = """
import fastdist as fd
from fastdist import distributed as dist
from fastdist.distributed import distributed_c10d as c10d
dist.init_process_group("mpi")
rank, size = dist.get_rank(), dist.get_world_size()
assert dist.is_mpi_available()
for dtype in (fd.float32, fd.bfloat16, fd.int64, fd.bool, fd.complex64):
    x = fd.tensor([1.0, rank]).to(dtype)
    dist.all_reduce(x)
    assert x.tolist() == fd.tensor([float(size), sum(range(size))]).to(dtype).tolist(), x
out = fd.empty(size)
dist.all_to_all_single(out, fd.arange(float(size)) + 10 * rank)
assert out.tolist() == [10 * other + rank for other in range(size)]
objects = [None] * size
dist.all_gather_object(objects, rank)
work = dist.isend(fd.tensor([rank]), (rank + 1) % size)
room = fd.empty(1, dtype=fd.int64)
assert dist.recv(room) == (rank - 1) % size == room.item()
work.wait()
pair = dist.new_group([0, size - 1])
if rank in (0, size - 1):
    dist.barrier(group=pair)
try:
    dist.all_reduce(fd.ones(2 + rank))
except RuntimeError as error:
    assert "rank 1 called all_reduce (float32 of shape (3,), sum)" in str(error), error
else:
    raise AssertionError("no mismatch")
dist.destroy_process_group()
print("rank", rank, "of", size, objects)
"""


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(
    "kind", [pytest.param(name, marks=pytest.mark.mpi(name)) for name in ("openmpi", "mpich")]
)
def test_a_job_of_mpi(kind: str, size: int, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command, environment = command_of(kind, size)
    ran = subprocess.run(
        [*command, sys.executable, str(program)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    expected = {f"rank {rank} of {size} {list(range(size))}" for rank in range(size)}
    assert expected <= set(ran.stdout.splitlines())

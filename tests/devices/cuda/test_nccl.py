"""Communicators over a stand-in for CuPy's NCCL bindings that checks arguments as NCCL does."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fastdist as fd
from fastdist.core.errors import CollectiveError, CollectiveLostError
from fastdist.devices.cuda import CudaBackend
from fastdist.devices.cuda import nccl as ours
from tests.fibre_shim import nccl as bindings
from tests.fibre_shim.installed import cuda_on_fibres
from tests.properties import in_one_test


@pytest.fixture
def fibres(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


@pytest.fixture
def alone(fibres: CudaBackend) -> Iterator[ours.Communicator]:
    made = ours.Communicator(1, ours.new_unique_id(), 0)
    yield made
    made.close()


def in_threads(*members: Callable[[], object]) -> None:
    """Run functions in parallel threads, and raise the exception of one of them."""
    errors: list[BaseException] = []

    def guarded(member: Callable[[], object]) -> None:
        try:
            member()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(one,)) for one in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for error in errors:
        raise error


def test_an_id_is_the_bytes_that_bindings_give_and_take(fibres: CudaBackend) -> None:
    unique_id = ours.new_unique_id()
    assert type(unique_id) is bytes and len(unique_id) == 128
    assert unique_id != ours.new_unique_id()
    made = ours.Communicator(1, unique_id, 0)
    made.close()


def test_bindings_are_found_where_importing_cupy_does_not_load_them(
    fibres: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not hasattr(sys.modules["cupy"].cuda, "nccl")
    assert ours.why_missing() == ""
    monkeypatch.setattr(bindings, "available", False)
    assert ours.why_missing().startswith("CuPy does not find NCCL: pip install")


@in_one_test("wrong", ["a tuple", "too short", "another rank"])
def test_the_stand_in_refuses_what_cupy_refuses(fibres: CudaBackend, wrong: str) -> None:
    unique_id: Any = bindings.get_unique_id()
    if wrong == "a tuple":
        with pytest.raises(TypeError, match=r"expected bytes, got tuple"):
            bindings.NcclCommunicator(1, tuple(unique_id), 0)
    elif wrong == "too short":
        with pytest.raises(ValueError, match="commId length 2 != 128"):
            bindings.NcclCommunicator(1, b"ab", 0)
    else:
        with pytest.raises(bindings.NcclError, match="INVALID_ARGUMENT"):
            bindings.NcclCommunicator(1, unique_id, 1)


def test_the_stand_in_refuses_numbers_that_nccl_does_not_know(alone: ours.Communicator) -> None:
    native, stream = alone._native, fd.cuda.Stream().native.ptr
    x = fd.ones(4, device="cuda")._array
    place = x.data.ptr
    native.allReduce(place, place, 4, 7, 0, stream)
    for kind, op in ((12, 0), (-1, 0), (7, 5)):
        with pytest.raises(bindings.NcclError, match="INVALID_ARGUMENT"):
            native.allReduce(place, place, 4, kind, op, stream)
    with pytest.raises(bindings.NcclError, match="INVALID_ARGUMENT"):
        native.broadcast(place, place, 4, 7, 1, stream)  # a root that does not exist
    with pytest.raises(OverflowError, match="size_t"):
        native.allReduce(place, place, -1, 7, 0, stream)
    with pytest.raises(TypeError, match="an integer is required"):
        native.allReduce(place, place, 4, "float32", 0, stream)
    with pytest.raises(bindings.NcclError, match="INVALID_ARGUMENT"):
        bindings.groupEnd()


def test_calls_after_the_end_are_errors_of_collectives(fibres: CudaBackend) -> None:
    x = fd.ones(4, device="cuda")._array
    stream = fd.cuda.Stream()
    for end in ("close", "abort"):
        made = ours.Communicator(1, ours.new_unique_id(), 0)
        getattr(made, end)()
        getattr(made, end)()
        made.require_healthy("all_reduce")
        with pytest.raises(CollectiveError, match=r"NCCL failed .*INVALID_ARGUMENT"):
            made.all_reduce("all_reduce", x, "sum", stream)


def test_members_of_one_gpu_are_refused(fibres: CudaBackend) -> None:
    unique_id = ours.new_unique_id()
    texts: list[str] = []

    def member(rank: int) -> None:
        with pytest.raises(CollectiveError) as caught:
            ours.Communicator(2, unique_id, rank)
        texts.append(str(caught.value))

    in_threads(lambda: member(0), lambda: member(1))
    assert len(texts) == 2 and all("NCCL_ERROR_INVALID_USAGE" in text for text in texts)


def test_errors_that_come_later_are_told_apart(alone: ours.Communicator) -> None:
    alone.require_healthy("all_reduce")
    for status, kind in ((2, CollectiveLostError), (6, CollectiveLostError), (3, CollectiveError)):
        alone._native.error = status
        with pytest.raises(kind, match="all_reduce: NCCL"):
            alone.require_healthy("all_reduce")
    alone._native.error = 7  # NCCL's "in progress"
    alone.require_healthy("all_reduce")
    alone._native.error = 8  # a code without a message in CuPy
    with pytest.raises(CollectiveError, match=r"NCCL failed \(code 8\)"):
        alone.require_healthy("all_reduce")
    alone._native.error = 0


def test_the_first_error_of_a_group_of_calls_is_raised(alone: ours.Communicator) -> None:
    with pytest.raises(ZeroDivisionError), ours.grouped():
        raise ZeroDivisionError
    with pytest.raises(CollectiveError, match="a group of calls: NCCL failed"), ours.grouped():
        bindings.groupEnd()
    x, stream = fd.ones(4, device="cuda")._array, fd.cuda.Stream()
    out = fd.zeros(4, device="cuda")
    with ours.grouped():  # a new group is not nested in the failed one
        alone.send("send", x, 0, stream)
        alone.recv("recv", out._array, 0, stream)
    stream.synchronize()
    assert out.tolist() == [1.0] * 4


def test_a_member_that_leaves_first_does_not_wait_for_ever(
    fibres: CudaBackend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ours, "_LEAVE_S", 0.01)
    unique_id, made = ours.new_unique_id(), dict[int, ours.Communicator]()

    def member(rank: int) -> None:
        fd.cuda.set_device(rank)
        made[rank] = ours.Communicator(2, unique_id, rank)

    in_threads(lambda: member(0), lambda: member(1))
    with caplog.at_level(logging.WARNING):
        made[0].close()
    assert "other members of this host have not left the group" in caplog.text
    made[1].close()

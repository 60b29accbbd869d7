"""`share_memory_`: which memory it moves, which memory stays, and processes that share memory."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from multiprocessing import resource_sharer
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdist as fd
import fastdist.multiprocessing as mp
from fastdist import Tensor
from fastdist.core.errors import DeviceError, SharedMemoryError
from fastdist.data import DataLoader
from fastdist.nn import Parameter

_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}


class Named(Tensor):
    """A subclass with attributes."""


@pytest.fixture
def sharer() -> Iterator[None]:
    """Finally stop the thread by which Python sends descriptors to readers of queues and pipes."""
    yield
    resource_sharer.stop(timeout=10)


def sent(value: Any) -> Any:
    """Return the value that a reader of a queue receives."""
    return ForkingPickler.loads(bytes(ForkingPickler.dumps(value)))


def matrix(**options: Any) -> Tensor:
    return fd.tensor(np.arange(6.0).reshape(2, 3), **options)


def add_one(index: int, *tensors: Tensor) -> None:
    with fd.no_grad():
        for tensor in tensors:
            assert tensor.is_shared()
            tensor.add_(1)


def die_after_writing(index: int, tensor: Tensor) -> None:
    tensor.fill_(3)
    os.kill(os.getpid(), signal.SIGKILL)


def answer(requests: Any, answers: Any) -> None:
    """Add one to a received tensor, send a tensor, and finally send the values of that tensor."""
    own = fd.zeros(2).share_memory_()
    requests.get().add_(1)
    answers.put(own)
    requests.get()
    answers.put(own.tolist())


def leave_one_behind(answers: Any) -> None:
    answers.put(fd.zeros(2).share_memory_())


def test_share_memory_moves_in_place_what_lies_in_the_memory() -> None:
    tensor = matrix()
    relatives = [tensor[1], tensor.detach(), tensor.data, tensor.t(), copy.copy(tensor)]
    address, version = tensor.data_ptr(), tensor._version
    assert tensor.share_memory_() is tensor
    assert tensor.data_ptr() != address and tensor._version == version
    assert all(one.is_shared() for one in [tensor, *relatives, tensor[0]])
    tensor.fill_(9)
    assert {value for one in relatives for value in one.flatten().tolist()} == {9.0}


def test_a_batch_that_is_alive_is_passed_over() -> None:
    alive: list[Tensor] = []

    def share(x: Tensor) -> Tensor:
        alive.append(x)
        assert fd.ones(2).share_memory_().is_shared()
        return x

    assert fd.vmap(share)(fd.ones(3)).tolist() == [1.0, 1.0, 1.0]
    assert fd.ones(2).share_memory_().is_shared() and alive


def test_a_view_takes_all_of_its_memory_along() -> None:
    tensor = matrix()
    view = tensor[1, 1:]
    stranger = matrix()
    assert view.share_memory_().is_shared() and tensor.is_shared() and not stranger.is_shared()
    assert (view.storage_offset(), view.stride(), view.tolist()) == (4, (1,), [4.0, 5.0])
    assert view.data_ptr() - tensor.data_ptr() == 4 * tensor.itemsize
    assert tensor.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_what_is_shared_stays_where_it_is_when_shared_again() -> None:
    tensor = matrix().share_memory_()
    address = tensor.data_ptr()
    assert tensor.share_memory_().data_ptr() == address
    assert tensor[0].share_memory_().data_ptr() == address


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: fd.tensor(3.5), id="0-d"),
        pytest.param(lambda: fd.tensor([], dtype=fd.int8), id="empty"),
        pytest.param(lambda: matrix()[2:], id="empty view"),
        pytest.param(lambda: fd.zeros(0, 3), id="no rows"),
        pytest.param(lambda: fd.tensor([True, False]), id="bool"),
        pytest.param(lambda: fd.arange(12).reshape(3, 4).t()[1:, ::2], id="gaps"),
        pytest.param(lambda: fd.ones(1, 3).expand(4, 3), id="expanded"),
        pytest.param(lambda: fd.from_numpy(np.arange(6.0)[::2]), id="users"),
        pytest.param(lambda: matrix(requires_grad=True), id="leaf"),
        pytest.param(lambda: Parameter(matrix(), requires_grad=False), id="parameter"),
        pytest.param(lambda: Named([1.0, 2.0]), id="subclass"),
        pytest.param(lambda: matrix(dtype=fd.float16), id="half"),
    ],
)
@pytest.mark.usefixtures("sharer")
def test_what_is_sent_is_the_same_memory_and_all_else_as_it_was(make: Callable[[], Tensor]) -> None:
    tensor = make()
    values = tensor.tolist()
    found = sent(tensor.share_memory_())
    assert type(found) is type(tensor) and found is not tensor and found.is_shared()
    assert found.dtype is tensor.dtype and found.requires_grad == tensor.requires_grad
    assert (found.shape, found.stride()) == (tensor.shape, tensor.stride())
    assert found.data_ptr() == tensor.data_ptr()
    assert found.tolist() == tensor.tolist() == values


@pytest.mark.usefixtures("sharer")
def test_what_is_one_or_overlaps_still_does_when_sent() -> None:
    tensor = matrix().share_memory_()
    one, same, row = sent((tensor, tensor, tensor[1]))
    assert one is same and row.data_ptr() == tensor[1].data_ptr()
    twin, twin_row = copy.deepcopy((one, row))
    twin.zero_()
    assert twin_row.tolist() == [0.0] * 3 and row.tolist() == [3.0, 4.0, 5.0]


def test_other_copies_are_copies() -> None:
    tensor = matrix(requires_grad=True).share_memory_()
    copies = [
        *(pickle.loads(pickle.dumps(tensor, protocol)) for protocol in range(2, 6)),
        copy.deepcopy(tensor),
        tensor.clone(),
        fd.tensor(tensor.tolist()),
    ]
    with fd.no_grad():
        tensor.zero_()
    assert not any(one.is_shared() for one in copies)
    assert all(one.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] for one in copies)


def test_what_was_not_shared_is_sent_as_a_copy() -> None:
    tensor = matrix()
    found = sent(tensor)
    found.zero_()
    assert not tensor.is_shared() and tensor.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_numpy_arrays_stay_with_the_old_memory() -> None:
    users = np.zeros(3)
    tensor = fd.from_numpy(users)
    lent = tensor.numpy()
    tensor.share_memory_().add_(1)
    assert users.tolist() == lent.tolist() == [0.0] * 3 and tensor.numpy().tolist() == [1.0] * 3


def test_a_graph_goes_on_over_what_moved() -> None:
    x = fd.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    x.share_memory_()
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 4.0] and not x.grad.is_shared()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]


@pytest.mark.usefixtures("sharer")
def test_the_gradient_stays_behind() -> None:
    x = fd.ones(2, requires_grad=True).share_memory_()
    x.sum().backward()
    assert sent(x).grad is None


def test_a_shared_out_is_not_resized() -> None:
    out = fd.zeros(2).share_memory_()
    with pytest.raises(
        SharedMemoryError, match=r"^Trying to resize storage that is not resizable: add: out has "
    ):
        fd.add(fd.ones(3), fd.ones(3), out=out)
    fd.add(fd.ones(2), fd.ones(2), out=out)
    assert out.is_shared() and out.tolist() == [2.0, 2.0]


def test_other_devices_memory_is_refused_and_then_nothing_moves() -> None:
    with pytest.raises(
        DeviceError, match=r"^share_memory: only memory of the CPU .* this tensor is on sim:0; "
    ):
        fd.ones(2, device="sim").share_memory_()
    assert not fd.ones(2, device="sim").is_shared()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_what_a_process_writes_is_seen_here(start_method: str) -> None:
    weights, row = fd.zeros(2, 3).share_memory_(), fd.zeros(3, requires_grad=True).share_memory_()
    mp.spawn(add_one, args=(weights[1], row, weights), nprocs=1, start_method=start_method)
    assert weights.tolist() == [[1.0] * 3, [2.0] * 3] and row.tolist() == [1.0] * 3


_FORKS = """
import fastdist as fd
import fastdist.multiprocessing as mp
from tests.tensor.test_shared_memory import add_one
shared = fd.zeros(2).share_memory_()
process = mp.get_context("fork").Process(target=add_one, args=(0, shared))
process.start()
process.join()
print(shared.tolist(), process.exitcode)
"""


@pytest.mark.one_in(3)
def test_what_a_forked_process_writes_is_seen_here() -> None:
    # Run in a separate process, which has no other threads, because it forks.
    told = subprocess.check_output([sys.executable, "-c", _FORKS], text=True, env=_ENVIRONMENT)
    assert told == "[1.0, 1.0] 0\n"


@pytest.mark.one_in(3)
def test_a_killed_process_leaves_its_writing_and_nothing_else() -> None:
    tensor = fd.zeros(2).share_memory_()
    with pytest.raises(mp.ProcessExitedException, match="signal SIGKILL"):
        mp.spawn(die_after_writing, args=(tensor,))
    assert tensor.tolist() == [3.0, 3.0]
    mapped = Path("/proc/self/maps").read_text()
    assert "/memfd:fastdist-shared (deleted)" in mapped
    del tensor
    gc.collect()  # until now the traceback kept the arguments alive
    assert "fastdist-shared" not in Path("/proc/self/maps").read_text()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["SimpleQueue", "Queue"])
@pytest.mark.usefixtures("sharer")
def test_queues_hand_shared_memory_on_both_ways(kind: str) -> None:
    context = mp.get_context("spawn")
    requests, answers = getattr(context, kind)(), getattr(context, kind)()
    process = context.Process(target=answer, args=(requests, answers))
    process.start()
    tensor = fd.zeros(3).share_memory_()
    requests.put(tensor)
    theirs = answers.get()
    assert tensor.tolist() == [1.0] * 3
    theirs.fill_(4)
    requests.put("end")
    assert answers.get() == [4.0, 4.0]
    process.join()
    process.close()
    for queue in (requests, answers):
        queue.close()
        if kind == "Queue":
            queue.join_thread()


@pytest.mark.one_in(3)
def test_memory_whose_sender_has_ended_is_an_error_that_says_so() -> None:
    context = mp.get_context("spawn")
    answers = context.SimpleQueue()
    process = context.Process(target=leave_one_behind, args=(answers,))
    process.start()
    process.join()
    process.close()
    with pytest.raises(
        SharedMemoryError, match=r"the process that sent it has ended .*; let it live until its "
    ):
        answers.get()
    answers.close()


def test_a_data_loaders_workers_read_shared_data() -> None:
    data = fd.arange(6.0).reshape(3, 2).share_memory_()
    loader = DataLoader(data, batch_size=None, num_workers=1)
    assert [row.tolist() for row in loader] == data.tolist()
    assert [batch.tolist() for batch in DataLoader(data, batch_size=3, num_workers=1)] == [
        data.tolist()
    ]

"""Gradients return as the tensors came: from GPU to GPU, or through the CPU."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.device import CPU, Device
from fastdist.core.errors import MessageError
from fastdist.distributed import rpc
from fastdist.distributed.autograd import recv_rpc_backward
from fastdist.distributed.autograd.backward_pass import BackwardPass
from fastdist.distributed.autograd.outbox import DEVICES, goals_of
from fastdist.distributed.autograd.pass_metadata import Terms
from fastdist.distributed.autograd.send_rpc_backward import SendRpcBackward
from fastdist.distributed.autograd.sparse_parts import SPARSE, spread
from fastdist.distributed.rpc.gpu_transport import cuda_ipc
from fastdist.distributed.rpc.message.message import Message
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.tensor.layout import Layout
from tests.device_kinds import kind_here, told
from tests.distributed.lives import life
from tests.distributed.members import init
from tests.distributed.rpc.test_broken_connections import break_connections
from tests.distributed.workers import DEADLINE_S, Group


def join() -> None:
    assert kind_here() == "cuda"
    maps = {"w1": {"cuda:0": "cuda:1"}} if os.environ["RANK"] == "0" else {}
    init(rpc_timeout=60, device_maps=maps)
    count_copies()
    logger = logging.getLogger("fastdist.distributed.rpc.workers")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(_lines)


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(record.getMessage())


_lines = _Lines()
# How many gradients each copy from GPUs to the CPU contained.
_copied: list[int] = []
_waits: list[Any] = []


def count_copies() -> None:
    """Count the gradients that this worker copies to the CPU, and record its waits for GPUs."""
    from tests.fibre_shim.installed import waits

    copies = recv_rpc_backward.HostCopies

    def counted(given: Any) -> Any:
        _copied.append(len(given))
        return copies(given)

    recv_rpc_backward.HostCopies = counted  # type: ignore[assignment,misc]
    _waits.append(waits(pytest.MonkeyPatch()))


def counted() -> tuple[int, int]:
    """Return the counts of gradients through the CPU and of waits for GPUs since the last call."""
    waits = sum(name in ("asnumpy", "Device.synchronize") for name in _waits[0])
    found = sum(_copied), waits
    _copied.clear()
    _waits[0].clear()
    return found


@pytest.fixture
def group() -> Iterator[Group]:
    group = Group(__file__, 2, told("cuda"))
    try:
        yield group
    finally:
        group.kill()


@pytest.fixture
def members(group: Group) -> Iterator[Group]:
    group.run_all(join)
    yield group
    group.run_all(rpc.shutdown)
    assert group.end() == [0, 0]


def how() -> str:
    name = "agent.cuda_ipc.w" + str(1 - int(os.environ["RANK"]))
    return rpc._get_debug_info().get(name, "")


def mix(x: Tensor, y: Tensor, unused: Tensor) -> tuple[Tensor, Tensor]:
    assert str(x.device) == "cuda:1"
    return x * y, x + y


def there_and_back(scale: float = 1.0) -> None:
    """Run a pass over both workers, and check its gradients."""
    x = fastdist.full((5, 3), 2.0 * scale, device="cuda:0", requires_grad=True)
    y = fastdist.full((3,), 5.0, device="cuda:0", requires_grad=True)
    unused = fastdist.ones(4, device="cuda:0", requires_grad=True)
    with da.context() as context_id:
        product, total = rpc.rpc_sync("w1", mix, (x, y, unused))
        again, _ = rpc.rpc_sync("w1", mix, (product, total, unused))
        da.backward(context_id, [(again * 3).sum()])
        found = da.get_gradients(context_id)
        assert {str(one.device) for one in found.values()} == {"cuda:0"}
        # The loss is 3 x y (x + y). These are its derivatives by x and by y.
        by_x, by_y = 3 * 5.0 * (4 * scale + 5.0), 3 * 2.0 * scale * (2 * scale + 10.0) * 5
        assert found[x].cpu().tolist() == [[by_x] * 3] * 5
        assert found[y].cpu().tolist() == [by_y] * 3
        assert found[unused].cpu().tolist() == [0.0] * 4


def until(is_enough: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_enough():
        assert time.monotonic() < deadline, how()
        there_and_back()


def agree() -> None:
    until(lambda: "by cuda_ipc" in how())


def settle(group: Group) -> None:
    """Run passes until both results and gradients travel directly from GPU to GPU."""
    group[0].run(agree)
    deadline = time.monotonic() + DEADLINE_S
    while "cuda:1 to cuda:0 by cuda_ipc" not in group[1].run(how):
        assert time.monotonic() < deadline
        group[0].run(there_and_back)
    group[0].run(there_and_back)


def wait_for_slabs() -> int:
    """Return how many bytes are still lent, after waiting for all to be returned."""
    deadline, never = time.monotonic() + 20, threading.Event()
    while True:
        lent = sum(bytes_out for bytes_out, _ in cuda_ipc.usage().values())
        if lent == 0 or time.monotonic() > deadline:
            return lent
        never.wait(0.01)


@pytest.mark.one_in(3)
def test_no_gradient_goes_through_the_cpu_and_nobody_waits_for_a_gpu(members: Group) -> None:
    settle(members)
    members[0].run(counted)
    members[1].run(counted)
    members[0].run(passes_without_a_look)
    assert members[0].run(counted) == members[1].run(counted) == (0, 0)
    assert members[0].run(wait_for_slabs) == members[1].run(wait_for_slabs) == 0
    assert any("cuda:0 by cuda_ipc" in line for line in members[1].run(said))


def passes_without_a_look() -> None:
    for _ in range(3):
        x = fastdist.full((1 << 16,), 2.0, device="cuda:0", requires_grad=True)
        with da.context() as context_id:
            product, total = rpc.rpc_sync("w1", mix, (x, x * 2, x))
            da.backward(context_id, [(product + total).sum()])
            da.get_gradients(context_id)


@pytest.mark.one_in(3)
def test_gradients_with_a_history_stay_on_gpus_in_every_pass(members: Group) -> None:
    settle(members)
    for _ in range(2):  # in the first round, the workers may not yet have agreed on direct copies
        members[0].run(counted)
        members[1].run(counted)
        members[0].run(three_passes)
        found = members[0].run(counted), members[1].run(counted)
    assert found == ((0, 0), (0, 0))
    for found_here, expected in zip(members[0].run(of_three_passes), on_one_cpu(), strict=True):
        assert found_here == pytest.approx(expected)


def cubes(x: Tensor, y: Tensor) -> Tensor:
    assert x.device == y.device
    return x * x * x * y * y


def leaves(device: str) -> tuple[Tensor, Tensor]:
    x, y = fastdist.arange(1.0, 5.0, device=device), fastdist.arange(2.0, 6.0, device=device)
    return x.requires_grad_(), y.requires_grad_()


_found: list[Tensor] = []


def three_passes() -> None:
    x, y = leaves("cuda:0")
    with da.context() as context_id:
        da.backward(context_id, [rpc.rpc_sync("w1", cubes, (x, y)).sum()], create_graph=True)
        for left in (1, 0):
            by_x, by_y = da.get_gradients(context_id)[x], da.get_gradients(context_id)[y]
            da.backward(context_id, [(by_x * by_y).sum()], create_graph=left > 0)
        _found[:] = [da.get_gradients(context_id)[one] for one in (x, y)]


def of_three_passes() -> list[list[float]]:
    assert {str(one.device) for one in _found} == {"cuda:0"}
    return [one.detach().cpu().tolist() for one in _found]


def on_one_cpu() -> list[list[float]]:
    x, y = leaves("cpu")
    cubes(x, y).sum().backward(create_graph=True)
    for left in (1, 0):
        assert x.grad is not None and y.grad is not None
        (x.grad * y.grad).sum().backward(create_graph=left > 0)
    return [one.grad.tolist() for one in (x, y) if one.grad is not None]


@pytest.mark.one_in(3)
def test_tangents_of_gradients_stay_on_gpus(members: Group) -> None:
    settle(members)
    for _ in range(2):
        members[0].run(counted)
        members[1].run(counted)
        members[0].run(pass_with_tangents)
        found = members[0].run(counted), members[1].run(counted)
    assert found == ((0, 0), (0, 0))
    # The derivatives of 3 x**2 y**2 and 2 x**3 y along (1, 0).
    expected = [[6.0 * x * y * y, 6.0 * x * x * y] for x, y in ((1, 2), (2, 3), (3, 4), (4, 5))]
    assert members[0].run(of_three_passes) == [list(row) for row in zip(*expected, strict=True)]


def pass_with_tangents() -> None:
    import fastdist.autograd.forward_ad as fwAD

    x, y = leaves("cuda:0")
    with fwAD.dual_level(), da.context() as context_id:
        dual = fwAD.make_dual(x, fastdist.ones(4, device="cuda:0"))
        da.backward(context_id, [rpc.rpc_sync("w1", cubes, (dual, y)).sum()])
        found = da.get_gradients(context_id)
        _found[:] = [fwAD.unpack_dual(found[one]).tangent for one in (x, y)]


@pytest.mark.one_in(3)
def test_of_sparse_gradients_the_coordinates_alone_come_to_the_cpu(members: Group) -> None:
    settle(members)
    members[0].run(keep_what_is_sent)
    members[1].run(keep_what_is_sent)
    expected = [[0.0] * 2, [12.0] * 2, [0.0] * 2, [6.0] * 2]
    for _ in range(2):
        members[1].run(counted)
        assert members[0].run(pass_over_a_table) == expected
    (came, waited), sent = members[1].run(counted), members[1].run(last_sent)
    assert (came, waited) == (1, 0)
    assert sent == ["cpu", "cuda:1"]


_sent: list[list[str]] = []


def keep_what_is_sent() -> None:
    from fastdist.distributed.autograd.outbox import GradientBatch

    content = GradientBatch.content

    def kept(batch: GradientBatch) -> Any:
        tensors, words = content(batch)
        _sent.append([str(one.device) for one in tensors])
        return tensors, words

    GradientBatch.content = kept  # type: ignore[method-assign]


def last_sent() -> list[str]:
    return _sent[-1]


def rows_of(table: Tensor) -> Tensor:
    words = fastdist.tensor([1, 3, 1], device=table.device)
    return fastdist.nn.functional.embedding(words, table, sparse=True)


def pass_over_a_table() -> list[list[float]]:
    table = fastdist.ones(4, 2, device="cuda:0", requires_grad=True)
    with da.context() as context_id:
        rows = rpc.rpc_sync("w1", rows_of, (table,))
        da.backward(context_id, [(rows * 6).sum()])
        found = da.get_gradients(context_id)[table]
        assert found.is_sparse and str(found.device) == "cuda:0"
        return found.to_dense().cpu().tolist()


def said() -> list[str]:
    return _lines.kept


@pytest.mark.one_in(3)
def test_what_finds_no_piece_goes_through_the_cpu(members: Group) -> None:
    settle(members)
    members[1].run(lend_all)
    for _ in range(3):
        members[0].run(there_and_back)
    assert members[1].run(give_back) == 0


_taken: list[Any] = []


def lend_all() -> None:
    ring = cuda_ipc.ring_of(1)
    ring.most_bytes = ring.usage()[1]
    while (piece := ring.take(1)) is not None:
        _taken.append(piece)


def give_back() -> int:
    from fastdist.devices import backend_of

    for piece in _taken:
        piece.event.event.record(backend_of("cuda").current_stream(1))
        cuda_ipc.ring_of(1).drop(piece)
    return wait_for_slabs()


def refuse_handles() -> None:
    from tests.fibre_shim import cupy

    def refused(handle: bytes, flags: int = 1) -> int:
        raise cupy.cuda.runtime.CUDARuntimeError(201)

    cupy.cuda.runtime.ipcOpenMemHandle = refused


@pytest.mark.one_in(3)
def test_a_pair_that_is_not_proved_goes_through_the_cpu_and_says_why(members: Group) -> None:
    members[0].run(refuse_handles)
    members[0].run(agree)
    deadline = time.monotonic() + DEADLINE_S
    while not any("by cuda_basic ('w0' says" in line for line in members[1].run(said)):
        assert time.monotonic() < deadline
        members[0].run(there_and_back)
    line = next(line for line in members[1].run(said) if "by cuda_basic ('w0' says" in line)
    assert line.startswith("rank 1: rank 0, cuda:1 to cuda:0 by cuda_basic") and "201" in line
    members[1].run(counted)
    members[0].run(there_and_back)
    assert members[1].run(counted)[0] > 0


@pytest.mark.one_in(3)
def test_a_peer_that_dies_during_a_pass_ends_it_and_gives_all_back(group: Group) -> None:
    group.run_all(join)
    settle(group)
    group[1].run(die_at_gradients)
    assert group[0].run(lose_a_pass)
    group[1].process.wait(20)
    assert group[0].run(wait_for_slabs) == 0
    group[0].run(leave_at_once)
    assert group[0].end() == 0


def die_at_gradients() -> None:
    """Kill this worker when its part of a pass has gradients to send."""
    from fastdist.distributed.autograd.outbox import GradientBatch

    def content(batch: GradientBatch) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    GradientBatch.content = content  # type: ignore[method-assign]


def lose_a_pass() -> bool:
    try:
        there_and_back()
    except Exception as error:
        return "lost" in str(error) or "connection" in str(error)
    return False


@pytest.mark.one_in(3)
def test_passes_while_connections_break_are_right_or_say_why(members: Group) -> None:
    settle(members)
    right, told_why = members[0].run(passes_while_connections_break)
    assert right + len(told_why) == 12, told_why
    assert all("connection" in why or "lost" in why or "taken back" in why for why in told_why)
    members[0].run(there_and_back)
    assert members.run_all(wait_for_slabs) == [0, 0]


def passes_while_connections_break() -> tuple[int, list[str]]:
    """Return how many passes gave the right gradients, and the errors of the others."""
    is_over, right, told_why = threading.Event(), 0, list[str]()

    def break_them() -> None:
        seed = 0
        while not is_over.wait(0.05):
            break_connections(1.0, seed)
            seed += 1

    breaker = threading.Thread(target=break_them)
    breaker.start()
    try:
        for _ in range(12):
            try:
                there_and_back()
                right += 1
            except RuntimeError as error:  # wrong gradients raise AssertionError instead
                told_why.append(str(error))
    finally:
        is_over.set()
        breaker.join()
    return right, told_why


def leave_at_once() -> None:
    rpc.shutdown(graceful=False)


# ---- the metadata of a message -------------------------------------------------------------------


def test_each_part_of_a_sparse_gradient_belongs_where_it_does() -> None:
    told = (1, 1, 1, 4, 4, 0, 2, 5, 6)  # the second and the last of four gradients are sparse
    assert spread(["a", "b", "c", "d"], told) == ["a", "b", "b", "c", "d", "d"]


def test_a_message_on_the_cpu_has_no_goals() -> None:
    message = Message(MessageType.BACKWARD_AUTOGRAD_REQ)
    message.tensors, message.metadata = [fastdist.ones(2)], {DEVICES: ["sim:0"]}
    assert goals_of(message) == ()
    message.tensors = [fastdist.ones(2), fastdist.ones(2, device="sim:1"), *[fastdist.ones(1)] * 3]
    message.metadata = {DEVICES: ["", "sim:0", "sim:2"], SPARSE: [2, 1, 1, 4]}
    assert goals_of(message) == [CPU, Device("sim:0"), CPU, CPU, CPU]


def test_a_gradient_on_another_device_than_the_tensor_s_is_refused() -> None:
    part = BackwardPass(Terms(1, 1))
    for where, came in (("cpu", "sim:0"), ("sim:0", "sim:1")):
        layout = Layout.of(fastdist.float32, Device.parse(where), (2,))
        send = SendRpcBackward((None,), (layout,), life(3))
        with pytest.raises(MessageError, match=f"on {came} arrived .* that was sent from {where}"):
            send.set_grads(part, (fastdist.ones(2, device=came),))

"""Processes of one machine send tensors directly from GPU to GPU, or report why they cannot."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fastdist
from fastdist.core.errors import DeviceError, MessageError
from fastdist.devices import backend_of
from fastdist.devices.cuda import ipc as devices_ipc
from fastdist.distributed import rpc
from fastdist.distributed.arena.borrower import REVOKED
from fastdist.distributed.arena.layout import ARENA_BLOCK
from fastdist.distributed.rpc.gpu_transport import cuda_ipc
from fastdist.distributed.rpc.message.layout import NO_INDEX, TensorEntry
from fastdist.distributed.rpc.message.tensors import unpack_tensors
from tests.dense_layouts import DENSE
from tests.device_kinds import kind_here, told
from tests.distributed.members import init
from tests.distributed.workers import DEADLINE_S, Group, open_gate, wait_at
from tests.fibre_shim import cupy, ipc


def join(**options: Any) -> None:
    assert kind_here() == "cuda"
    init(rpc_timeout=60, device_maps={"w1": {"cuda:0": "cuda:1"}} if rank() == 0 else {}, **options)


def rank() -> int:
    return int(os.environ["RANK"])


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


def twice(*tensors: fastdist.Tensor) -> list[fastdist.Tensor]:
    assert all(str(tensor.device) == "cuda:1" for tensor in tensors)
    return [tensor + tensor for tensor in tensors]


def how() -> str:
    return rpc._get_debug_info().get("agent.cuda_ipc.w" + str(1 - rank()), "")


def ones(count: int = 3, value: float = 1.0) -> fastdist.Tensor:
    return fastdist.full((count,), value, device="cuda:0")


def call_until(is_enough: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        assert rpc.rpc_sync("w1", twice, (ones(),))[0].tolist() == [2.0] * 3
        if is_enough():
            return
        assert time.monotonic() < deadline, how()


def use_ipc() -> str:
    call_until(lambda: "by cuda_ipc" in how())
    return how()


def learn_why_not() -> str:
    call_until(lambda: "by cuda_basic (" in how() and " yet)" not in how())
    return how()


@pytest.mark.one_in(8)
def test_what_goes_there_and_back_is_what_was_sent(members: Group) -> None:
    assert members[0].run(use_ipc) == "cuda:0 to cuda:1 by cuda_ipc"
    assert members[0].run(all_come_as_they_went)
    assert members[1].run(how_once_answered) == "cuda:1 to cuda:0 by cuda_ipc"


def how_once_answered() -> str:
    """Return this worker's route for tensors, after the peer has answered the offer of memory."""
    deadline = time.monotonic() + DEADLINE_S
    while " yet)" in how():
        assert time.monotonic() < deadline, how()
        rpc.rpc_sync(f"w{1 - rank()}", rank)
    return how()


def same(*tensors: fastdist.Tensor) -> tuple[fastdist.Tensor, ...]:
    return tensors


def all_come_as_they_went() -> bool:
    whole = fastdist.arange(20.0).reshape(4, 5).to("cuda:0")
    names = ("bool", "uint8", "int64", "float16", "bfloat16", "float64", "complex64", "complex128")
    sent = [whole, whole.t(), whole[1:3, ::2], whole[0, 0], whole[:0], whole.expand(3, 4, 5)]
    sent += [fastdist.ones(7).to(getattr(fastdist, name)).to("cuda:0") for name in names]
    counted = fastdist.arange(120.0).to("cuda:0")
    dense = [make(counted) for make in DENSE.values()]
    sent += [*dense, fastdist.nn.Parameter(ones(5)), ones(4).requires_grad_(), fastdist.ones(3)]
    for _ in range(2):
        came = rpc.rpc_sync("w1", same, tuple(sent))
        for one, other in zip(sent, came, strict=True):
            assert one.dtype == other.dtype and str(one.device) == str(other.device)
            assert one.requires_grad == other.requires_grad and type(one) is type(other)
            assert one.tolist() == other.tolist()
            assert other.stride() == one.stride() or all(one is not each for each in dense)
    return True


@pytest.mark.one_in(8)
def test_nobody_waits_for_a_gpu_on_either_side(members: Group) -> None:
    members[0].run(use_ipc_there_and_back)
    # A worker that has opened its peer's memory reads a number there before it answers.
    assert members[1].run(how_once_answered) == "cuda:1 to cuda:0 by cuda_ipc"
    members[1].run(count_waits)
    assert members[0].run(waits_of_calls) == 0
    assert members[1].run(counted_waits) == 0


_waits: list[Any] = []


def count_waits() -> None:
    from tests.fibre_shim.installed import waits

    patch = pytest.MonkeyPatch()
    # Without this patch, waits for streams by other threads would not be counted.
    _waits.append(waits(patch))


def counted_waits() -> int:
    return sum(
        name in ("asnumpy", "Device.synchronize", "Stream.synchronize") for name in _waits[0]
    )


def waits_of_calls() -> int:
    count_waits()
    x = ones(1 << 16)
    for _ in range(5):
        x = rpc.rpc_sync("w1", same, (x, x))[0]
    return counted_waits()


@pytest.mark.one_in(8)
def test_pieces_come_back_and_go_round(members: Group) -> None:
    members[0].run(use_ipc)
    assert members[0].run(send_much) == (0, 64 << 20)
    lent, there = members[1].run(slab_bytes)
    assert lent == 0 and there == 64 << 20
    assert members[1].run(num_opened) == 1


def send_much() -> tuple[int, int]:
    x = ones(1 << 20)
    for i in range(20):  # 80 MB, more than a slab
        came = rpc.rpc_sync("w1", same, (x,))[0]
        assert came.shape == x.shape and came[:: 1 << 14].tolist() == [1.0] * 64, i
    return slab_bytes()


def slab_bytes() -> tuple[int, int]:
    """Wait for the return of lent bytes; return how many are still lent, and the slabs' bytes."""
    deadline, never = time.monotonic() + 20, threading.Event()
    while True:
        (found,) = cuda_ipc.usage().values()
        if found[0] == 0 or time.monotonic() > deadline:
            return found
        never.wait(0.01)


def num_opened() -> int:
    return len(ipc.opened) - len(ipc.closed)


@pytest.mark.one_in(8)
def test_what_lies_idle_goes_back_to_the_gpu_when_memory_is_to_be_freed(group: Group) -> None:
    group.run_all(join)
    for _ in range(2):  # slabs are also allocated again after they were freed
        group[0].run(use_ipc_there_and_back)
        assert group.run_all(slab_bytes) == [(0, 64 << 20)] * 2
        assert group.run_all(free) == [0, 0]
        assert group.run_all(num_opened) == [0, 0]
    group[0].run(use_ipc)
    group[1].run(release_nothing)
    group[0].run(lend_and_lose, True)
    assert group[0].run(free) == 64 << 20  # pieces are still lent
    group[1].kill(signal.SIGKILL)
    assert group[0].run(free_of_the_lost) == 0
    group[0].run(leave_at_once)
    assert group[0].end() == 0


def free() -> int:
    """Return the bytes of all remaining slabs, after releasing the unused ones."""
    fastdist.cuda.empty_cache()
    deadline, never = time.monotonic() + 20, threading.Event()
    while True:
        rings = cuda_ipc.rings()
        there = sum(ring.usage()[1] for ring in rings)
        if not any(ring._aside for ring in rings) or time.monotonic() > deadline:
            return there
        never.wait(0.01)


def free_of_the_lost() -> int:
    assert slab_bytes()[0] == 0
    deadline, never = time.monotonic() + 20, threading.Event()
    while free() and time.monotonic() < deadline:  # until the peer's death is known
        never.wait(0.01)
    return free()


@pytest.mark.one_in(8)
def test_what_finds_no_piece_goes_through_the_cpu(members: Group) -> None:
    members[0].run(use_ipc)
    assert members[0].run(send_more_than_there_is) == 5
    assert members[0].run(slab_bytes)[0] == 0


def send_more_than_there_is() -> int:
    ring = cuda_ipc.ring_of(0)
    ring.most_bytes = slab_bytes()[1]  # waits until all earlier pieces are returned
    taken = ring.take(ring.most_bytes)
    assert taken is not None and ring.take(1) is None
    values = [rpc.rpc_sync("w1", twice, (ones(3, i),))[0].tolist() for i in range(5)]
    taken.event.event.record(backend_of("cuda").current_stream(0))
    ring.drop(taken)
    return sum(value == [2.0 * i] * 3 for i, value in enumerate(values))


@pytest.mark.one_in(8)
def test_a_gpu_without_memory_for_slabs_is_told(members: Group) -> None:
    members[0].run(leave_no_memory)
    assert "has no memory for other processes" in members[0].run(learn_why_not)


def leave_no_memory() -> None:
    ipc.Memory.free_bytes = 0


# ---- reasons why direct transfer is impossible ---------------------------------------------------


def hide_gpus() -> None:
    """Make this worker report GPUs other than the peer's."""
    properties = cupy.cuda.runtime.getDeviceProperties
    cupy.cuda.runtime.getDeviceProperties = lambda number: {
        **properties(number),
        "uuid": bytes([100 + number]) * 16,
    }


def reach_no_peers() -> None:
    cupy.cuda.runtime.deviceCanAccessPeer = lambda index, peer: 0


def refuse_handles() -> None:
    def refused(handle: bytes, flags: int = 1) -> int:
        raise cupy.cuda.runtime.CUDARuntimeError(201)

    cupy.cuda.runtime.ipcOpenMemHandle = refused


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (hide_gpus, "is not visible here: CUDA_VISIBLE_DEVICES hides it"),
        (reach_no_peers, "cuda:1 cannot read the memory of cuda:0 directly"),
        (refuse_handles, "status 201"),
    ],
)
def test_a_gpu_that_cannot_be_read_is_told_and_tensors_go_through_the_cpu(
    members: Group, fault: Callable[[], None], reason: str
) -> None:
    members[1].run(fault)
    why = members[0].run(learn_why_not)
    assert "cuda:0 to cuda:1 by cuda_basic ('w1' says: " in why and reason in why


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("at", [0, 1])
def test_a_worker_that_chose_other_channels_is_not_asked_twice(group: Group, at: int) -> None:
    for worker in group.workers:
        worker.start(join_with, ["basic", "arena", "cuda_basic"] if worker.rank == at else None)
    for worker in group.workers:
        worker.result()
    if at:
        assert "it is configured to use other channels" in group[0].run(learn_why_not)
    else:
        assert group[0].run(call_and_look) == ""
    group.run_all(rpc.shutdown)
    assert group.end() == [0, 0]


def join_with(channels: list[str] | None) -> None:
    join(_channels=channels)


def call_and_look() -> str:
    for _ in range(5):
        assert rpc.rpc_sync("w1", twice, (ones(),))[0].tolist() == [2.0] * 3
    return how()


# ---- peers that die or leave ---------------------------------------------------------------------


@pytest.mark.one_in(8)
def test_a_reader_that_dies_gives_all_back(group: Group) -> None:
    group.run_all(join)
    group[0].run(use_ipc)
    group[1].run(release_nothing)
    assert group[0].run(lend_and_lose, True) > 0
    group[1].kill(signal.SIGKILL)
    assert group[0].run(slab_bytes)[0] == 0
    group[0].run(leave_at_once)
    assert group[0].end() == 0


def release_nothing() -> None:
    """Prevent this worker's copies on the GPU from ever completing."""
    backend: Any = backend_of("cuda")
    for index in range(2):
        backend.current_stream(index).launch_host_function(threading.Event().wait)


def lend_and_lose(is_read: bool) -> int:
    x = ones(1 << 16)
    for _ in range(3):
        rpc.rpc_sync("w1", forget, (x,))
    return next(iter(cuda_ipc.usage().values()))[0]


def forget(tensor: fastdist.Tensor) -> None:
    pass


def leave_at_once() -> None:
    rpc.shutdown(graceful=False)


@pytest.mark.one_in(8)
def test_a_sender_that_dies_has_its_slabs_unmapped(group: Group) -> None:
    group.run_all(join)
    group[0].run(use_ipc_there_and_back)
    group[1].kill(signal.SIGKILL)
    assert group[0].run(wait_until_unmapped)
    group[0].run(leave_at_once)
    assert group[0].end() == 0


def use_ipc_there_and_back() -> None:
    use_ipc()
    call_until(lambda: num_opened() == 1)


def wait_until_unmapped() -> bool:
    deadline, never = time.monotonic() + 20, threading.Event()
    while num_opened() and time.monotonic() < deadline:
        never.wait(0.01)
    return num_opened() == 0


@pytest.mark.one_in(8)
def test_a_call_that_was_given_up_gives_its_piece_back(members: Group) -> None:
    members[0].run(use_ipc)
    assert members[0].run(give_up_calls) == 4
    assert members[0].run(slab_bytes)[0] == 0


def give_up_calls() -> int:
    count = 0
    for _ in range(4):
        try:
            rpc.rpc_sync("w1", wait_at, ("late", ones(1 << 16)), timeout=0.05)
        except RuntimeError:
            count += 1
    rpc.rpc_sync("w1", open_gate, ("late",))
    return count


# ---- what a peer may not do ----------------------------------------------------------------------


@pytest.mark.one_in(8)
def test_a_stranger_s_pieces_are_not_opened(members: Group) -> None:
    members[0].run(use_ipc)
    assert members[0].run(send_forged) == {
        "handle": True, "size": True, "start": True, "event": True, "slab": True, "tensor": True,
    }  # fmt: skip
    assert members[0].run(call_and_look) == "cuda:0 to cuda:1 by cuda_ipc"
    assert members[0].run(slab_bytes)[0] == 0 and members[1].run(num_opened) == 1


def _forged(uuid: bytes, slab: bytes, slab_size: int, start: int, size: int, event: bytes) -> Any:
    huge = 1 << 40
    return {
        "handle": (uuid, bytes(64), slab_size, start, size, event),
        "size": (uuid, slab, slab_size, start, huge, event),
        "start": (uuid, slab, slab_size, slab_size, size, event),
        "event": (uuid, slab, slab_size, start, size, bytes(64)),
        "slab": (uuid, slab, huge, huge - size, size, event),
    }


def send_forged() -> dict[str, bool]:
    """Return for each forged message whether it was rejected with the expected error."""
    real, found = cuda_ipc.PIECE, {}
    words = ("status 1", "a piece of", "a piece of", "status 1", "a slab of", "it must be packed")
    for kind, word in zip(
        ("handle", "size", "start", "event", "slab", "tensor"), words, strict=True
    ):

        class Liar:
            size = real.size

            @staticmethod
            def pack(*told: Any, kind: str = kind) -> bytes:
                return real.pack(*_forged(*told).get(kind, told))

        cuda_ipc.PIECE = Liar  # type: ignore[assignment,misc]
        ring: Any = cuda_ipc.ring_of(0)
        if kind == "tensor":
            fill = ring.fill
            ring.fill = lambda piece, arrays, fill=fill: [
                piece.size - 1 for _ in fill(piece, arrays)
            ]
        try:
            rpc.rpc_sync("w1", twice, (ones(),))
        except Exception as error:
            found[kind] = word in str(error)
        finally:
            cuda_ipc.PIECE = real
            ring.__dict__.pop("fill", None)
    return found


def test_pieces_of_one_who_made_no_offer_are_gone() -> None:
    block = ARENA_BLOCK.pack(0x1234, 1, 1, 1 << 22)
    assert cuda_ipc.borrow_piece(block, 1 << 16) is REVOKED


def test_a_body_or_a_tensor_of_the_cpu_is_in_no_memory_of_a_gpu() -> None:
    came: Any = cuda_ipc.CameOnDevice(cuda_ipc.PeersSlabs(), b"", 1 << 16)
    entry = TensorEntry(0, 0, fastdist.float32.code, 0, NO_INDEX, 0, (3,), (1,))
    with pytest.raises(MessageError, match="of the CPU in memory of a GPU"):
        unpack_tensors([entry], [came])
    elsewhere = entry._replace(device_type=2, device_index=0)
    with pytest.raises(MessageError, match="bound for sim:0 in memory of a GPU"):
        unpack_tensors([elsewhere], [came])


def test_a_peer_may_have_so_many_slabs_and_events_open_and_all_are_closed_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[bytes] = []

    class Opened:
        def __init__(self, backend: Any, index: int, handle: bytes, size: int) -> None:
            self.size, self.close = size, lambda: closed.append(handle)

    monkeypatch.setattr(devices_ipc, "OpenedSlab", Opened)
    peer: Any = cuda_ipc.PeersSlabs()
    handles = [bytes([i]) * 64 for i in range(cuda_ipc.MOST_SLABS)]
    for handle in (*handles, *handles):
        peer._opened(None, 0, handle, 1 << 21)
    with pytest.raises(MessageError, match="more than 64 slabs of one worker"):
        peer._opened(None, 0, b"\xff" * 64, 1 << 21)
    with pytest.raises(MessageError, match="a slab of 2097152 bytes that has 4194304 now"):
        peer._opened(None, 0, handles[0], 1 << 22)
    peer.close()
    assert closed == handles
    with pytest.raises(MessageError, match="of a worker that was lost"):
        peer._opened(None, 0, handles[0], 1 << 21)
    events: Any = devices_ipc.OpenedEvents(lambda index, handle: object(), 2)  # type: ignore[arg-type,return-value]
    assert events.get(0, b"a") is events.get(0, b"a") is not events.get(1, b"a")
    with pytest.raises(DeviceError, match="more than 2 events of one worker"):
        events.get(0, b"b")


def test_a_slab_that_is_being_read_is_not_given_back() -> None:
    peer: Any = cuda_ipc.PeersSlabs()
    idle = [False]
    peer._slabs[b"h"] = type("Opened", (), {"close_if_idle": lambda _: idle[0]})()
    assert not peer.release(b"h") and peer.num_slabs() == 1
    idle[0] = True
    assert peer.release(b"h") and peer.num_slabs() == 0
    assert peer.release(b"h")  # a repeated request to release

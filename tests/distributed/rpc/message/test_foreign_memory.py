"""A message may only name its sender's memory, and its sender cannot change it after the check."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fastdist.core.errors import DeviceError, MessageError
from fastdist.distributed.arena.borrower import REVOKED, close_borrowed, open_borrowed
from fastdist.distributed.arena.layout import ARENA_BLOCK
from fastdist.distributed.arena.lender import Lender, State
from fastdist.distributed.arena.owner import Arena
from fastdist.distributed.rpc.gpu_transport import cuda_ipc
from fastdist.distributed.rpc.gpu_transport.cuda_ipc import (
    PIECE,
    CameOnDevice,
    PeersSlabs,
    Wanted,
    borrow_piece,
    get_or_create_peer,
)
from fastdist.distributed.rpc.message import gate
from fastdist.distributed.rpc.message.limits import Limits
from fastdist.distributed.rpc.message.message import Message, decode
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.tensor.tensor import Tensor
from tests.distributed.arena.arena_of_both import SIZE

LIMITS = Limits(frame_bytes=1 << 20)


class Way:
    """An arena of one worker, and another worker's mapping of it."""

    def __init__(self) -> None:
        self.owner = object()
        self.arena = Arena(SIZE, lambda *_: None)
        self.lender = Lender(lambda lender: None)
        self.lender._state = State.OFFERED
        self.lender.open(self.arena)
        fd, arena_id = self.arena.fd, self.arena.id
        self.borrowed: Any = open_borrowed(os.getpid(), fd, SIZE, arena_id, self.owner)

    def frames_of(self, message: Message) -> Any:
        frames = message.encode(self.lender, lambda _: None, limits=LIMITS)
        assert message.lent_bytes
        return frames

    def end(self) -> None:
        close_borrowed(self.arena.id)
        self.borrowed = None
        self.arena.close()


@pytest.fixture
def way() -> Iterator[Way]:
    way = Way()
    yield way
    way.end()


def message_with_tensors(count: int) -> Message:
    message = Message(MessageType.PYTHON_CALL, 5, body=b"a body")
    message.tensors = [tensor() for _ in range(count)]
    return message


def tensor() -> Tensor:
    import fastdist

    return fastdist.tensor(np.arange(1 << 17, dtype=np.float32))


@pytest.mark.parametrize("count", [1, 3])
def test_a_message_names_memory_of_its_sender_alone(way: Way, count: int) -> None:
    frames = way.frames_of(message_with_tensors(count))
    for other in (object(), None):  # None: a connection without an introduction
        with pytest.raises(MessageError, match="which is not the sender's"):
            decode(frames, LIMITS, other)
    came = decode(frames, LIMITS, way.owner)
    assert [len(buffer) for buffer in came.buffers] == [1 << 19] * count


@pytest.fixture
def strict() -> Iterator[None]:
    gate.set_mode(gate.STRICT)
    yield
    gate.set_mode(gate.OPEN)


def a_large_body(way: Way) -> tuple[Any, bytes]:
    message = Message(MessageType.PYTHON_RET, 5, metadata={"with": 1})  # more than one frame
    message.pack(bytes(700_000))
    body = bytes(message.body)
    return way.frames_of(message), body


@pytest.mark.usefixtures("strict")
def test_a_body_that_was_examined_cannot_be_changed_by_who_sent_it(way: Way) -> None:
    frames, body = a_large_body(way)
    came = decode(frames, LIMITS, way.owner)
    mapping = way.arena._mapping
    assert mapping is not None
    at = mapping.find(body)
    mapping[at : at + len(body)] = b"." * len(body)
    assert came.body == body and came.value() == bytes(700_000)


def test_in_open_mode_a_large_body_is_not_copied(way: Way) -> None:
    frames, body = a_large_body(way)
    came = decode(frames, LIMITS, way.owner)
    assert isinstance(came.body, memoryview) and came.body == body


# ---- pieces of GPU memory: only the numbers are checked, without a GPU ---------------------------

SIZES = (0, 1, 64, 4096, 1 << 21, (1 << 21) + 1, 1 << 47, 1 << 48, 1 << 63, (1 << 64) - 1)


def try_piece(rng: random.Random, owner: PeersSlabs) -> None:
    slab_size, start, size = (rng.choice(SIZES) for _ in range(3))
    handles = rng.randbytes(16), rng.randbytes(64), rng.randbytes(64)
    told = PIECE.pack(handles[0], handles[1], slab_size, start, size, handles[2])
    if rng.random() < 0.2:
        told = rng.randbytes(PIECE.size)
    came = CameOnDevice(owner, told, rng.choice((size, rng.choice(SIZES))))
    wanted = [Wanted(rng.choice((0, 64)), (3,), np.dtype(np.float32))]
    with pytest.raises((MessageError, DeviceError)):  # this machine has no such GPU
        owner.copy_out(came, wanted, 0)
    assert came.block is REVOKED


def test_pieces_of_any_numbers_are_refused() -> None:
    rng, owner = random.Random(11), PeersSlabs()
    for _ in range(500):
        try_piece(rng, owner)
    assert owner.num_slabs() == 0


@pytest.mark.slow
def test_very_many_pieces_of_any_numbers_are_refused() -> None:
    rng, owner = random.Random(12), PeersSlabs()
    for _ in range(100_000):
        try_piece(rng, owner)


def test_a_descriptor_of_a_piece_names_memory_of_its_sender_alone(way: Way) -> None:
    peer = get_or_create_peer(way.arena.id)
    peer.is_open = True
    try:
        block = way.lender.lend(bytes(PIECE.size), 7)
        assert block is not None
        with pytest.raises(MessageError, match="which is not the sender's"):
            borrow_piece(block, 4096, object())
        came: Any = borrow_piece(block, 4096, way.owner)
        assert isinstance(came, CameOnDevice)
        rng = random.Random(3)
        for _ in range(300):
            numbers = rng.getrandbits(32), rng.getrandbits(64), rng.getrandbits(64)
            forged = ARENA_BLOCK.pack(way.arena.id, *numbers)
            with pytest.raises(MessageError):
                borrow_piece(forged, rng.choice(SIZES), way.owner)
    finally:
        cuda_ipc.close_peer(way.arena.id)

"""One ring: messages of every size, complete and in order, and invalid data."""

from __future__ import annotations

import mmap
import random
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from fastdist.core.errors import MessageError
from fastdist.distributed.arena.lender import LEAST_BYTES
from fastdist.distributed.pipe.ring.memory import CAPACITY, RING_BYTES, RingReader, RingWriter

MAX_FRAME_BYTES = 1 << 20
# Offsets of the first direction's words and data; see memory.py.
WRITTEN, READ, DATA = 0, 64, 4096


class Ring:
    """Both ends of one direction, in one process."""

    def __init__(self, bell: Callable[[], None] | None = None) -> None:
        self.memory = mmap.mmap(-1, RING_BYTES)
        self.rung = self.told = 0
        self.writer = RingWriter(self.memory, 0, bell or self._ring)
        self.reader = RingReader(self.memory, 0, MAX_FRAME_BYTES, self._tell)

    def _ring(self) -> None:
        self.rung += 1

    def _tell(self) -> None:
        self.told += 1

    def end(self) -> None:
        self.writer.release()
        self.reader.release()
        self.memory.close()

    def carry(self, frames: list[bytes]) -> list[bytes]:
        """Write a message, whole or in pieces, and return the message that the reader gets."""
        if not self.writer.write(frames):
            self.writer.begin(frames)
        while (came := self.reader.read()) is None:
            self.writer.go_on()
        return [bytes(frame) for frame in came]


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring()
    yield ring
    ring.end()


SIZES = [0, 1, 15, 16, 17, 4000, CAPACITY - 33, CAPACITY - 32, CAPACITY - 16, CAPACITY, 300_000]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("size", SIZES)
def test_a_frame_of_every_size_comes_as_it_was(ring: Ring, size: int) -> None:
    # Each turn starts at another offset, so that frames and headers wrap around the end of the
    # memory.
    for turn in range(40):
        frame = random.Random(turn).randbytes(size)
        assert ring.carry([frame]) == [frame]


def test_messages_of_many_frames_keep_their_order_and_their_bounds(ring: Ring) -> None:
    rng, on_their_way = random.Random(7), []
    for _ in range(2_000):
        sizes = [rng.choice((0, 8, 300, 5_000)) for _ in range(rng.randint(1, 4))]
        message = [rng.randbytes(size) for size in sizes]
        while not ring.writer.write(message):
            came = ring.reader.read()
            assert came is not None
            assert [bytes(frame) for frame in came] == on_their_way.pop(0)
        on_their_way.append(message)
    for message in on_their_way:
        assert [bytes(frame) for frame in ring.reader.read() or ()] == message
    assert ring.reader.read() is None
    assert not ring.reader.has_some()


def test_a_tensor_that_no_memory_is_lent_for_goes_whole(ring: Ring) -> None:
    head, tensor = b"h" * 300, bytes(LEAST_BYTES - 1)
    for _ in range(3):  # some of the messages wrap around the end of the memory
        assert ring.writer.write([head, tensor])
        assert [bytes(frame) for frame in ring.reader.read() or ()] == [head, tensor]


@pytest.mark.one_in(3)
def test_small_messages_that_are_read_at_once_stay_in_a_few_pages(ring: Ring) -> None:
    sizes = random.Random(3)
    for _ in range(20_000):
        frame = sizes.randbytes(sizes.randint(1, 900))
        assert ring.writer.write([frame])
        assert ring.reader.read() == [frame]
    few = DATA + (1 << 14) + 4096
    assert ring.memory[few : DATA + CAPACITY] == bytes(DATA + CAPACITY - few)
    # A message that needs more than the remaining room continues at its position.
    large = bytes(CAPACITY - 32)
    for _ in range(3):
        assert ring.carry([large]) == [large]
        assert ring.carry([b"small"]) == [b"small"]


def test_what_may_hold_tensors_is_writable(ring: Ring) -> None:
    assert ring.writer.write([b"first", b"second", bytes(40)])
    first, *others = ring.reader.read() or ()
    assert bytes(first) == b"first"
    assert [memoryview(frame).readonly for frame in others] == [False, False]


def test_a_message_without_room_is_not_written_at_all(ring: Ring) -> None:
    assert ring.writer.write([bytes(CAPACITY - 200)])
    assert not ring.writer.write([b"a", bytes(200)])
    assert ring.writer.write([b"small"])
    assert [len(ring.reader.read() or ()) for _ in range(2)] == [1, 1]
    assert ring.reader.read() is None


def test_nothing_passes_a_message_that_goes_in_pieces(ring: Ring) -> None:
    ring.writer.begin([bytes(3 * CAPACITY)])
    ring.writer.begin([b"next"])
    assert not ring.writer.go_on()
    assert not ring.writer.write([b"small"])
    assert ring.reader.read() is None
    while not ring.writer.go_on():
        ring.reader.read()
    came = [ring.reader.read(), ring.reader.read()]
    assert [sum(map(len, frames or ())) for frames in came] == [3 * CAPACITY, 4]


def test_a_sleeper_is_rung_once(ring: Ring) -> None:
    assert ring.writer.write([b"a"])
    assert ring.reader.read() == [b"a"]
    assert ring.rung == 0
    assert ring.reader.sleeps()
    assert ring.writer.write([b"b"])
    assert ring.rung == 1
    assert ring.writer.write([b"c"])
    assert ring.rung == 1


def test_nobody_falls_asleep_over_what_is_there(ring: Ring) -> None:
    assert ring.writer.write([b"a"])
    assert not ring.reader.sleeps()
    assert ring.writer.write([b"b"])
    assert ring.rung == 0
    ring.writer.begin([bytes(2 * CAPACITY)])
    assert not ring.writer.go_on()
    assert ring.writer.waits()
    assert ring.reader.read() == [b"a"]
    assert ring.told == 1
    assert ring.reader.read() == [b"b"]
    assert ring.told == 1
    assert not ring.writer.waits()


@pytest.mark.one_in(3)
def test_two_threads_lose_no_message_and_miss_no_bell() -> None:
    count, bell, came = 20_000, threading.Semaphore(0), []
    ring = Ring(bell.release)

    def read() -> None:
        while len(came) < count:
            frames = ring.reader.read()
            if frames is not None:
                came.append(int.from_bytes(frames[0], "little"))
            elif ring.reader.sleeps():
                assert bell.acquire(timeout=20)
                ring.reader.wakes()

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(count):
        message = [i.to_bytes(8, "little") + bytes(i % 700)]
        while not ring.writer.write(message):
            pass
    reader.join(30)
    ring.end()
    assert [number & 0xFFFFFFFFFFFFFFFF for number in came] == list(range(count))


@pytest.mark.parametrize(
    ("written", "read", "header"),
    [
        pytest.param(CAPACITY + 16, 0, (0, 0), id="more than there is room for"),
        pytest.param(16, 32, (0, 0), id="less than was read"),
        pytest.param(8, 0, (0, 0), id="half a header"),
        pytest.param(32, 0, (MAX_FRAME_BYTES + 1, 0), id="a frame beyond the limit"),
        pytest.param(32, 0, (1 << 63, 0), id="a frame of a size that cannot be"),
        pytest.param(32, 0, (16, 7), id="a word that no writer of ours has"),
    ],
)
def test_rubbish_is_an_error(ring: Ring, written: int, read: int, header: tuple[int, int]) -> None:
    ring.memory[WRITTEN : WRITTEN + 8] = struct.pack("<Q", written)
    ring.memory[READ : READ + 8] = struct.pack("<Q", read)
    ring.memory[DATA : DATA + 16] = struct.pack("<QQ", *header)
    with pytest.raises(MessageError):
        ring.reader.read()


def test_memory_is_taken_for_what_has_come_not_for_what_is_announced(ring: Ring) -> None:
    ring.memory[WRITTEN : WRITTEN + 8] = struct.pack("<Q", 32)
    ring.memory[DATA : DATA + 16] = struct.pack("<QQ", MAX_FRAME_BYTES, 0)
    assert ring.reader.read() is None
    came = ring.reader._came
    assert came is not None and len(came._frame) == 16

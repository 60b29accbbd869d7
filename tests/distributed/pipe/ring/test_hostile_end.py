"""A hostile end that writes anywhere in a ring at any time does no harm outside the ring."""

from __future__ import annotations

import mmap
import random
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fastdist.core.errors import MessageError
from fastdist.distributed.pipe.lane import LaneInDoubt
from fastdist.distributed.pipe.listener import Received
from fastdist.distributed.pipe.ring import memory as ring_memory
from fastdist.distributed.pipe.ring.bell_socket import BellSocket
from fastdist.distributed.pipe.ring.end import ANSWERS, REQUESTS
from fastdist.distributed.pipe.ring.lane import RingLane
from fastdist.distributed.pipe.ring.memory import CAPACITY, RING_BYTES, RingReader, RingWriter
from tests.distributed.pipe.ring.house import House, soon

MAX_FRAME_BYTES = 1 << 20
# Sizes: a word, the words of one direction, and all heads before the data; see memory.py.
WORD, WORDS, HEADS = 8, 256, 4096
WRITTEN, READ, READER_SLEEPS, WRITER_WAITS = 0, 64, 128, 192
# Fills all memory outside of the direction under test.
FOREIGN = b"\xee"


def write_word(memory: Any, way: int, where: int, value: int) -> None:
    at = way * WORDS + where
    memory[at : at + WORD] = struct.pack("<Q", value & (1 << 64) - 1)


def start_of(way: int) -> int:
    return HEADS + way * CAPACITY


def nothing() -> None: ...


@pytest.mark.parametrize("way", [REQUESTS, ANSWERS])
@pytest.mark.parametrize("start", [CAPACITY - 15, CAPACITY - 8, CAPACITY - 1])
def test_a_header_that_lies_over_the_end_of_the_memory_is_rubbish(way: int, start: int) -> None:
    with mmap.mmap(-1, RING_BYTES) as memory:
        reader = RingReader(memory, way, MAX_FRAME_BYTES, nothing)
        write_word(memory, way, READ, start)
        write_word(memory, way, WRITTEN, start + 64)
        with pytest.raises(MessageError):
            reader.read()
        reader.release()


@pytest.mark.parametrize("size", [CAPACITY // 2, CAPACITY])
def test_an_empty_stretch_with_nothing_behind_it_is_rubbish(size: int) -> None:
    with mmap.mmap(-1, RING_BYTES) as memory:
        writer = RingWriter(memory, 0, nothing)
        reader = RingReader(memory, 0, MAX_FRAME_BYTES, nothing)
        assert writer.write([bytes(CAPACITY // 2 - 16)])
        assert reader.read() is not None
        at = CAPACITY // 2
        header = struct.pack("<QQ", CAPACITY - at - 16, 2)
        memory[HEADS + at : HEADS + at + 16] = header
        write_word(memory, 0, WRITTEN, at + min(size, 24))
        with pytest.raises(MessageError):
            reader.read()
        writer.release(), reader.release()


def test_a_message_of_frames_without_end_is_rubbish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_memory, "_MOST_FRAMES", 100)
    with mmap.mmap(-1, RING_BYTES) as memory:
        reader = RingReader(memory, 0, MAX_FRAME_BYTES, nothing)
        memory[HEADS : HEADS + CAPACITY] = struct.pack("<QQ", 0, 1) * (CAPACITY // 16)
        write_word(memory, 0, WRITTEN, 50 * 16)
        assert reader.read() is None
        write_word(memory, 0, WRITTEN, 150 * 16)
        with pytest.raises(MessageError, match="more than 100 frames"):
            reader.read()
        reader.release()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("moved", [-(1 << 63), -4096, -1, 1, 16, CAPACITY, CAPACITY + 1, 1 << 63])
@pytest.mark.parametrize("where", [READ, WRITTEN])
@pytest.mark.parametrize("frames", [[b"small"], [b"a", bytes(300_000)]], ids=["whole", "in pieces"])
def test_a_writer_whose_positions_were_moved_says_so_and_writes_nowhere_else(
    moved: int, where: int, frames: list[bytes]
) -> None:
    with mmap.mmap(-1, RING_BYTES) as memory:
        memory[start_of(1) : start_of(2)] = FOREIGN * CAPACITY
        writer = RingWriter(memory, 0, nothing)
        assert writer.write([bytes(4080)])
        write_word(memory, 0, where, 4096 + moved)
        if not writer.write(frames):
            writer.begin(frames)
            if where == READ and 0 <= -moved <= CAPACITY:
                # This position is possible, as if the reader had read less: the writer waits.
                assert writer.go_on() or writer.is_busy()
            else:
                with pytest.raises(MessageError):
                    writer.go_on()
        assert memory[start_of(1) : start_of(2)] == FOREIGN * CAPACITY
        writer.release()


def test_a_peer_that_rings_without_end_is_read_for_a_while_only() -> None:
    class Bell:
        """One end of a connection that is never drained."""

        num_reads = 0

        def fileno(self) -> int:
            return 7

        def recv(self, size: int) -> bytes:
            self.num_reads += 1
            return bytes(size)

    bell: Any = Bell()
    line = BellSocket(bell)
    line.drain()
    assert 0 < bell.num_reads < 1000 and not line.has_ended


# ---- generated corruptions -----------------------------------------------------------------------


class Flipping:
    """Words of one direction that change at random between reads, as if by another processor."""

    def __init__(self, words: memoryview, rng: random.Random) -> None:
        self.words, self.rng = words, rng

    def __getitem__(self, index: int) -> int:
        return self.words[index] if self.rng.random() < 0.7 else a_number(self.rng, self.words)

    def __setitem__(self, index: int, value: int) -> None:
        self.words[index] = value

    def release(self) -> None:
        self.words.release()


def a_number(rng: random.Random, words: memoryview) -> int:
    near = words[rng.choice((0, 8))] + rng.choice((0, 1, -1, 8, 16, -16, 4096, CAPACITY, -CAPACITY))
    far = rng.choice((0, 1, CAPACITY, CAPACITY + 1, 1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1))
    return rng.choice((near, far, rng.getrandbits(64), rng.randrange(2 * CAPACITY))) & (1 << 64) - 1


def corrupt(rng: random.Random, memory: Any, way: int, words: memoryview) -> None:
    """Overwrite some words of one direction, or some of its data."""
    if rng.random() < 0.5:
        write_word(memory, way, rng.choice((WRITTEN, READ)), a_number(rng, words))
    else:
        at = start_of(way) + 16 * rng.randrange(CAPACITY // 16 if rng.random() < 0.2 else 64)
        size = rng.choice((0, 1, 100, CAPACITY, MAX_FRAME_BYTES, 1 << 63, rng.getrandbits(64)))
        memory[at : at + 16] = struct.pack("<QQ", size, rng.choice((0, 1, 2, 3, 1 << 40)))


def try_one(seed: int) -> str:
    """Corrupt a ring while it is written and read; return the outcome."""
    rng = random.Random(seed)
    way = rng.choice((REQUESTS, ANSWERS))
    other = ANSWERS - way
    memory = mmap.mmap(-1, RING_BYTES)
    memory[start_of(other) : start_of(other) + CAPACITY] = FOREIGN * CAPACITY
    memory[other * WORDS : (other + 1) * WORDS] = FOREIGN * WORDS
    writer = RingWriter(memory, way, nothing)
    reader = RingReader(memory, way, MAX_FRAME_BYTES, nothing)
    words = memoryview(memory)[way * WORDS : (way + 1) * WORDS].cast("Q")
    for end in (writer, reader):
        if rng.random() < 0.3:
            end._words = Flipping(end._words, rng)  # type: ignore[assignment]
    how = "nothing came of it"
    try:
        for _ in range(rng.randrange(1, 30)):
            if rng.random() < 0.3:
                corrupt(rng, memory, way, words)
            step(rng, writer, reader)
    except MessageError:
        how = "it was found"
    others = (slice(start_of(other), start_of(other) + CAPACITY), slice(other * WORDS, None))
    assert memory[others[0]] == FOREIGN * CAPACITY
    assert memory[other * WORDS : (other + 1) * WORDS] == FOREIGN * WORDS
    words.release(), writer.release(), reader.release()
    memory.close()
    return how


def step(rng: random.Random, writer: RingWriter, reader: RingReader) -> None:
    sizes = [rng.choice((0, 1, 16, 300, 5000, 100_000)) for _ in range(rng.choice((1, 1, 1, 3)))]
    actions: list[Callable[[], Any]] = [
        lambda: writer.write([bytes(size) for size in sizes]),
        lambda: writer.begin([bytes(size) for size in sizes]),
        writer.go_on,
        writer.waits,
        reader.sleeps,
        reader.wakes,
        reader.has_some,
    ]
    rng.choice(actions)()
    frames = reader.read()
    for frame in frames or ():
        assert len(frame) <= MAX_FRAME_BYTES
        assert FOREIGN not in bytes(frame)


def test_generated_corruptions_are_found_or_harmless() -> None:
    ends = [try_one(seed) for seed in range(600)]
    assert 100 < ends.count("it was found") < 600


@pytest.mark.slow
def test_many_generated_corruptions_are_found_or_harmless() -> None:
    for seed in range(1_000, 26_000):
        try_one(seed)


# ---- with an acceptor and lanes ------------------------------------------------------------------

CASES = [
    (way, where, value)
    for way in (REQUESTS, ANSWERS)
    for where in (WRITTEN, READ)
    for value in (1, 8, CAPACITY + 16, 1 << 63, -1)
]


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    yield house
    house.end()


def memory_of(lane: RingLane) -> mmap.mmap:
    return lane._end._memory


def test_a_caller_that_spoils_its_ring_holds_up_nobody_else(house: House) -> None:
    honest = house.ring()
    for number, (way, where, value) in enumerate(CASES):
        hostile = house.ring()
        hostile.send([b"hostile"], soon())
        received = house.receive()
        assert received is not None
        write_word(memory_of(hostile), way, where, value)
        # An answer to the hostile caller may be lost, but must not raise here.
        for frames in ([b"answer"], [b"answer", bytes(300_000)]):
            house.listener.reply(received.route, frames)
        hostile._end.bell.ring()
        question = b"%d" % number
        honest.send([question], soon())
        while (received := house.receive()) is not None and received.frames != [question]:
            assert received.frames[0] in (b"hostile", b""), received  # of the hostile caller
        assert received is not None
        assert house.listener.reply(received.route, [question])
        assert honest.receive(soon()) == [question]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("way", "where", "value"), CASES)
def test_a_callee_that_spoils_a_ring_is_spoken_with_by_the_other_way(
    house: House, way: int, where: int, value: int
) -> None:
    lane = house.ring()
    lane.send([b"first"], soon())
    received = house.receive()
    assert received is not None and house.listener.reply(received.route, [b"answer"])
    write_word(memory_of(lane), way, where, value)
    try:
        came = lane.receive(soon())
    except LaneInDoubt:
        came = None
    assert came in (None, [b"answer"], [b""])
    third = [b"third", bytes(200_000)]
    lane.send([b"second"], soon())
    lane.send(third, soon())
    received = receive_third(house, lane)
    if received is None:
        # The listener has dropped the ring; its caller notices, and continues over ZeroMQ.
        assert house.num_callers() == 0
        with pytest.raises(LaneInDoubt):
            lane.receive(soon())
        lane.send(third, soon())
        received = receive_third(house, lane)
    assert received is not None and len(received.frames[1]) == 200_000


def receive_third(house: House, lane: RingLane) -> Received | None:
    """Return the third message, or None if the listener dropped the ring."""
    deadline = soon()
    while time.monotonic() < deadline:
        is_dropped = house.num_callers() == 0 and not lane.takes_edges
        received = house.receive(0.02)
        if received is not None and received.frames[0] == b"third":
            return received
        assert received is None or received.frames[0] in (b"second", b"first", b"")
        if received is None and is_dropped:
            break
    return None

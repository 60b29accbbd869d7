"""The memory that members share: its parts do not overlap, and stay mapped while in use."""

from __future__ import annotations

import itertools
import mmap
import os

import numpy as np
import pytest

from fastdist.distributed.links import segment
from fastdist.distributed.links.segment import Segment, SegmentError

BOARD = 1 << 16


@pytest.fixture(params=[(1, 1), (1, 5), (2, 2), (3, 7), (2, 200)], ids=str)
def made(request: pytest.FixtureRequest) -> Segment:
    count, size = request.param
    mapping = mmap.mmap(-1, segment.segment_bytes(count, size, BOARD))
    return Segment(mapping, count, size, BOARD)


def test_no_two_parts_overlap_and_together_they_fill_the_segment(made: Segment) -> None:
    whole = made._bytes
    table_bytes = made.table(0, 0).nbytes
    parts: list[tuple[int, int]] = []  # start and end of each part

    def add(part: np.ndarray, nbytes: int) -> None:  # type: ignore[type-arg]
        assert part.nbytes == nbytes
        start = part.ctypes.data - whole.ctypes.data
        parts.append((start, start + nbytes))

    for one in range(made.count):
        base = 8 * made.first_word(one)
        assert base == one * made.head_bytes
        parts.append((base, base + segment._WORDS_BYTES))
        texts = (
            (segment._CALLS_AT, segment.CALL_ROOM),
            (segment._CALLS_AT + segment.CALL_ROOM, segment.CALL_ROOM),
            (segment._FAILURE_AT, segment.FAILURE_ROOM),
            (segment._GO_AT, segment.GO_ROOM),
        )
        parts += [(base + at, base + at + room) for at, room in texts]
        for parity in (0, 1):
            add(made.table(one, parity).view(np.uint8), table_bytes)
            add(made.small(one, parity), segment.SMALL_BYTES)
        for number in range(segment.RING_BLOCKS):
            add(made.block(one, number), segment.BLOCK_BYTES)
        ring = made.ring(one)
        assert ring.ctypes.data == made.block(one, 0).ctypes.data
        assert ring.nbytes == segment.RING_BLOCKS * segment.BLOCK_BYTES
    add(made.board(0, BOARD), BOARD)
    parts.sort()
    assert all(start % 8 == 0 for start, _ in parts)
    assert made.board(0, 1).ctypes.data % mmap.PAGESIZE == 0
    assert parts[0][0] == 0 and parts[-1][1] == len(whole)
    gaps = [low - high for (_, high), (low, _) in itertools.pairwise(parts)]
    assert min(gaps) == 0 and max(gaps) < mmap.PAGESIZE
    assert made.head_bytes % mmap.PAGESIZE == 0 and len(whole) % mmap.PAGESIZE == 0


def test_words_of_a_head_do_not_overlap() -> None:
    words = [getattr(segment, name) for name in ("STAGE", "IN", "OUT", "SLEEPS", "FUTEX")]
    words += [segment.FAILURE, segment.FAILURE_BYTES, segment.GO, segment.GO_DIFFERS]
    words += [segment.GO_BYTES, segment.CALL_BYTES, segment.SHARED_BYTES]
    taken = [*words, segment.CALL_BYTES + 1, segment.SHARED_BYTES + 1]
    assert len(set(taken)) == len(taken) and max(taken) * 8 < segment._WORDS_BYTES
    # Words that are written at different times are on different cache lines.
    lines = [word // 8 for word in (*words[:6], segment.GO, segment.CALL_BYTES)]
    assert len(set(lines)) == len(lines)
    assert all(word % 8 == 0 for word in (*words[:6], segment.GO, segment.CALL_BYTES))


@pytest.mark.parametrize(
    ("room", "write", "read"),
    [
        (segment.FAILURE_ROOM, "write_failure", "failure_text"),
        (segment.GO_ROOM, "write_go", "go_text"),
    ],
)
def test_texts_are_cut_to_their_room_and_disturb_no_neighbour(
    room: int, write: str, read: str
) -> None:
    mapping = mmap.mmap(-1, segment.segment_bytes(2, 3, BOARD))
    made = Segment(mapping, 2, 3, BOARD)
    getattr(made, write)(0, b"first")
    for text in (b"a" * (room + 9), b"b" * room, b"short", b""):
        getattr(made, write)(1, text)
        assert getattr(made, read)(1) == text[:room]
        assert getattr(made, read)(0) == b"first"
    getattr(made, write)(1, b"c" * room)
    # A forged length does not cause a read beyond the allotted room.
    word = segment.FAILURE_BYTES if read == "failure_text" else segment.GO_BYTES
    made.words[made.first_word(1) + word] = 1 << 40
    assert getattr(made, read)(1) == b"c" * room
    assert not made.small(0, 0).any() and not made.table(1, 0).any()


def test_calls_of_both_parities_keep_apart() -> None:
    made = Segment(mmap.mmap(-1, segment.segment_bytes(2, 3, BOARD)), 2, 3, BOARD)
    texts = {place: bytes([65 + one]) * segment.CALL_ROOM for one, place in enumerate(
        itertools.product((0, 1), (0, 1))
    )}  # fmt: skip
    for (member, parity), text in texts.items():
        made.write_call(member, parity, text)
    for (member, parity), text in texts.items():
        assert made.call_text(member, parity, segment.CALL_ROOM) == text
        assert made.call_text(member, parity, 7) == text[:7]
        assert made.call_text(member, parity, 1 << 40) == text


def test_blocks_of_a_ring_come_round() -> None:
    made = Segment(mmap.mmap(-1, segment.segment_bytes(1, 1, BOARD)), 1, 1, BOARD)
    places = [made.block(0, number).ctypes.data for number in range(2 * segment.RING_BLOCKS)]
    assert places[: segment.RING_BLOCKS] == places[segment.RING_BLOCKS :]


def test_only_bytes_of_the_board_are_given(made: Segment) -> None:
    made.board(0, BOARD)[:] = 7
    assert made.board(BOARD, BOARD).nbytes == 0
    assert made.board(3, 9).tolist() == [7] * 6
    for start, stop in ((-1, 4), (5, 4), (0, BOARD + 1)):
        with pytest.raises(ValueError, match=f"bytes {start} to {stop} of a board of {BOARD}"):
            made.board(start, stop)


def test_views_of_a_closed_segment_can_still_be_read() -> None:
    mapping = mmap.mmap(-1, segment.segment_bytes(2, 3, BOARD))
    made = Segment(mapping, 2, 3, BOARD)
    made.board(0, 8)[:] = 5
    views = [made.board(0, 8), made.small(0, 1)[:3], made.table(1, 0)]
    made.close()
    assert not mapping.closed
    assert views[0].tolist() == [5] * 8 and views[1].tolist() == [0] * 3
    del views
    other = mmap.mmap(-1, segment.segment_bytes(1, 1, BOARD))
    Segment(other, 1, 1, BOARD).close()
    assert other.closed


def test_a_segment_is_opened_by_another_process_if_it_has_the_right_size() -> None:
    descriptor, mapping = segment.create(2, 3, BOARD)
    try:
        other = segment.open_other(os.getpid(), descriptor, 2, 3, BOARD)
        mapping[100:105] = b"hello"
        assert other[100:105] == b"hello" and len(other) == segment.segment_bytes(2, 3, BOARD)
        other.close()
        for count, size, board in ((1, 3, BOARD), (2, 3, BOARD + mmap.PAGESIZE)):
            with pytest.raises(SegmentError, match="cannot be mapped"):
                segment.open_other(os.getpid(), descriptor, count, size, board)
        with open("/dev/null", "rb") as file, pytest.raises(SegmentError, match="cannot be mapped"):
            segment.open_other(os.getpid(), file.fileno(), 2, 3, BOARD)
    finally:
        os.close(descriptor)
        mapping.close()


@pytest.mark.parametrize(
    ("pid", "descriptor", "board"),
    [
        *((0, 3, BOARD), (-1, 3, BOARD), (1, -1, BOARD), (1, 1 << 31, BOARD)),
        *((1, 3, 0), (1, 3, -5), (1, 3, segment.BOARD_BYTES + 1)),
    ],
)
def test_numbers_that_no_member_gives_open_nothing(pid: int, descriptor: int, board: int) -> None:
    with pytest.raises(SegmentError) as raised:
        segment.open_other(pid, descriptor, 2, 3, board)
    assert str(raised.value) == f"descriptor {descriptor} of process {pid} cannot be a segment"


def test_a_descriptor_that_is_not_there_is_named() -> None:
    with pytest.raises(SegmentError, match=f"the memory of process {os.getpid()} cannot be opened"):
        segment.open_other(os.getpid(), (1 << 31) - 1, 2, 3, segment.BOARD_BYTES)


def test_the_board_may_take_a_sixteenth_of_memory_between_two_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = mmap.PAGESIZE
    for pages, expected in ((1 << 40, 256 << 20), (1 << 14, (1 << 14) * page // 16), (16, 1 << 20)):
        monkeypatch.setattr(os, "sysconf", lambda name, pages=pages: pages)
        assert segment.board_bytes() == expected

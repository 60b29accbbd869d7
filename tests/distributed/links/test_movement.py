"""Movement of data: the needed bytes of each piece, and the limits of sizes."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.core.errors import CollectiveError, CollectiveMismatchError
from fastdist.distributed.links import movement, segment, sums
from tests.distributed.links.members import TOPOLOGIES, Member, staying, together

topologies = pytest.mark.parametrize("machines", TOPOLOGIES.values(), ids=TOPOLOGIES)


@pytest.mark.parametrize(
    ("start", "size", "expected"),
    [
        (0, 6, [[0, 1, 2], [3, 4, 5]]),
        (0, 3, [[0, 1, 2]]),
        (2, 2, [[2], [3]]),
        (3, 2, [[3, 4]]),
        (4, 9, [[4, 5]]),
        (1, 0, []),
        (6, 1, []),
        (0, -1, []),
    ],
)
def test_a_range_of_pieces(start: int, size: int, expected: list[list[int]]) -> None:
    pieces = [np.array(one, np.uint8) for one in ([0, 1, 2], [], [3, 4, 5])]
    assert [part.tolist() for part in movement._range_of(pieces, start, size)] == expected


def test_what_members_must_move_alike_is_one_text() -> None:
    assert movement._detail([5, 5, 5]) == "5 bytes of each"
    assert movement._detail([0, 7, 0]) == "7 bytes of 1"
    assert movement._detail([3, 7, 3]) == "7 bytes of each"
    assert sums._detail(np.zeros(3, np.float32), "max") == "max of 12 bytes"


@pytest.mark.one_in(3)
@topologies
@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_sizes_around_those_that_travel_with_the_meeting(machines: str, extra: int) -> None:
    """The largest sizes that fit into the segment's slots, or into messages between machines."""

    def play(member: Member) -> None:
        transport, size = member.transport, member.size
        for most in (segment.SMALL_BYTES, movement._MOST_BETWEEN_BYTES // size):
            count = most + extra
            mine = np.full(count, member.rank + 1, np.uint8)
            out = np.zeros((size, count), np.uint8)
            transport.all_gather(member.call(), out, mine)
            assert (out == np.arange(1, size + 1, dtype=np.uint8)[:, None]).all()
        for most in (sums._MOST_SMALL_BYTES, sums._MOST_BETWEEN_BYTES):
            array = np.full(most + extra, member.rank + 1, np.uint8)
            transport.all_reduce(member.call(), array, "sum")
            assert (array == 10).all()

    together(machines, play)


@topologies
def test_parts_of_a_scatter_lie_at_any_byte(machines: str) -> None:
    def play(member: Member) -> None:
        for count in (1, 7, 40_003):
            arrays = [np.full(count, to + 1, np.uint8) for to in range(member.size)]
            out = np.zeros(count, np.uint8)
            for root in (0, 2):
                given = arrays if member.rank == root else None
                member.transport.scatter(member.call(), out, given, root)
                assert (out == member.rank + 1).all()
                out[:] = 0

    together(machines, play)


def test_sizes_that_no_machine_has_end_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(movement, "_MOST_BYTES", 100)

    def play(member: Member) -> str:
        arrays = [np.zeros(101 if to else 1, np.uint8) for to in range(2)]
        outs = [np.zeros(101 if member.rank else 1, np.uint8) for _ in range(2)]
        try:
            member.transport.all_to_all(member.call(), outs, arrays)
        except (CollectiveError, ValueError) as error:
            return str(error)
        return "no error"

    assert all("a member sends 101 bytes" in text for text in together("aa", staying(2, play)))
    monkeypatch.setattr(movement, "_MOST_BYTES", 101)
    assert together("aa", play) == ["no error"] * 2


def test_the_first_pair_that_differs_is_named() -> None:
    def play(member: Member) -> str:
        outs = [np.zeros(3 + (member.rank == 1 and one == 2), np.uint8) for one in range(3)]
        with pytest.raises(CollectiveMismatchError) as raised:
            member.transport.all_to_all(member.call("swap"), outs, [np.zeros(3, np.uint8)] * 3)
        return str(raised.value)

    for text in together("aab", play):
        assert text.startswith("swap: rank 2 (pid ")
        assert "sends 3 bytes to rank 1 (pid" in text and text.endswith("which expects 4")


@pytest.mark.one_in(3)
@topologies
@pytest.mark.parametrize("board", [1 << 20, 192])
def test_tables_of_sizes_that_no_ring_holds_go_over_the_board(
    machines: str, board: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has 16 bytes per pair of members, so 314 members need more than a ring."""
    monkeypatch.setattr(segment, "BLOCK_BYTES", 64)
    # The board of a machine must hold a line of 64 bytes for each of its members.
    monkeypatch.setattr(segment, "board_bytes", lambda: max(board, 64 * machines.count("a")))

    def play(member: Member) -> None:
        size, rank = member.size, member.rank
        assert member.transport._segment.ring(0).nbytes < 16 * size * size
        for turn in range(3):
            counts = [
                [1 + (5 * one + two + turn) % 7 for two in range(size)] for one in range(size)
            ]
            given = [np.full(counts[rank][to], 10 * rank + to, np.uint8) for to in range(size)]
            outs = [np.zeros(counts[one][rank], np.uint8) for one in range(size)]
            member.transport.all_to_all(member.call(), outs, given)
            for one, out in enumerate(outs):
                assert out.tolist() == [10 * one + rank] * counts[one][rank]

    together(machines, play)


def test_an_exchange_of_more_members_than_one_message_describes_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(movement, "MAX_FRAME_BYTES", 16 * 3 * 3 - 1)

    def play(member: Member) -> str:
        arrays = [np.full(2, member.rank, np.uint8)] * 3
        outs = [np.zeros(2, np.uint8) for _ in range(3)]
        try:
            member.transport.all_to_all(member.call("all_to_all"), outs, arrays)
        except ValueError as error:
            member.transport.barrier(member.call("barrier"))
            return str(error)
        return str([out.tolist() for out in outs])

    refused = together("aab", play)
    assert len(set(refused)) == 1 and refused[0].startswith("all_to_all: a group of 3 members on ")
    assert "2 can. Use smaller groups" in refused[0]
    # Members of one machine read the tables in shared memory.
    assert together("aaa", play) == ["[[0, 0], [1, 1], [2, 2]]"] * 3

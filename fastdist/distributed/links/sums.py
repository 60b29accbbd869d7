"""Reductions over all members, through shared memory and around a ring of machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fastdist.core.errors import MessageError
from fastdist.distributed.process_group.transport import Call

from .alarm import REPORT_S, Waiting
from .meeting import Meeting
from .reductions import combine
from .segment import BLOCK_BYTES, IN, OUT, RING_BLOCKS, SMALL_BYTES, Bytes

# Note [Sums through shared memory]
# Small arrays are sent with the meeting: each member reads all of them, and adds them. A large
# array is divided into blocks, and each member sums one part of every block. A member writes its
# data for the other members' parts to its ring, and its part of the sum to the board. Two
# counters show the other members how many blocks it has written and how many it has summed. Each
# member writes block k + 1 before it sums block k, so that members rarely wait for each other, and
# the blocks stay in the processor's caches. With several machines, the leaders then replace the
# sums on their boards by the sum over all machines. When the whole sum is complete, nothing can
# fail any more, and all members copy it from the board. So the array of a caller is either replaced
# completely or unchanged.

# Arrays up to these sizes are sent with the meeting; the second limit is for several machines.
_MOST_SMALL_BYTES: Final = SMALL_BYTES
_MOST_BETWEEN_BYTES: Final = 16 << 10

# Two arrays are added in parts of this size. So if a dtype needs copies, they are small.
_FILL_BYTES: Final = 1 << 20

Array = NDArray[Any]
# Writes a range of the sum to an array: fill(out, start, stop).
Fill = Callable[[Array, int, int], None]
# Called with a Fill once the sum is complete, to fill the caller's array. The Fill is valid only
# during this call.
Place = Callable[[Fill], None]


class Sums:
    """The reductions of one group.

    Thread  the thread that runs the group's collective
    """

    def __init__(self, meeting: Meeting) -> None:
        self._meeting = meeting
        # The number of blocks that have passed through the rings.
        self._num_blocks = 0
        # The first step of the ring of machines that this turn has not used yet.
        self._step = 0

    def reduce(self, call: Call, flat: Array, op: str, place: Place, waiting: Waiting) -> None:
        """Meet all members, and call `place` with a Fill of the reduction of their arrays."""
        meeting = self._meeting
        most = _MOST_SMALL_BYTES if meeting.is_alone else _MOST_BETWEEN_BYTES
        if flat.nbytes <= most:
            place(_copying(self._reduce_small(call, flat, op, waiting)))
            return
        if meeting.can_reduce_at_once and flat.nbytes <= meeting.segment.board_bytes:
            place(self._reduce_at_once(call, flat, op, waiting))
            return
        meeting.meet(call, (), waiting, _detail(flat, op))
        self._step = 0
        board_size = meeting.segment.board_bytes // flat.itemsize
        if flat.size <= board_size:
            place(_copying(self._reduce_on_board(flat, op, waiting, call)))
            return
        whole = np.empty_like(flat)
        for start in range(0, flat.size, board_size):
            part = flat[start : start + board_size]
            whole[start : start + board_size] = self._reduce_on_board(part, op, waiting, call)
            # No member may write to the board again before all members have read this part.
            meeting.machine.meet(waiting)
        place(_copying(whole))

    def _reduce_at_once(self, call: Call, flat: Array, op: str, waiting: Waiting) -> Fill:
        """Meet the only other member, and get its array; return a Fill that adds the two arrays."""
        meeting = self._meeting
        theirs = meeting.segment.board(0, flat.nbytes).view(flat.dtype)
        meeting.meet_and_exchange(call, flat, theirs, waiting, _detail(flat, op))
        arrays = (flat, theirs) if meeting.between.mine == 0 else (theirs, flat)
        step = max(1, _FILL_BYTES // flat.itemsize)

        def fill(out: Array, start: int, stop: int) -> None:
            for low in range(start, stop, step):
                high = min(low + step, stop)
                parts = [array[low:high] for array in arrays]
                combine(op, parts, out[low - start : high - start])

        return fill

    def _reduce_small(self, call: Call, flat: Array, op: str, waiting: Waiting) -> Array:
        meeting, segment = self._meeting, self._meeting.segment
        nbytes, count = flat.nbytes, meeting.machine.count

        def reduce_here() -> Bytes:
            slots = [segment.small(one, meeting.parity)[:nbytes] for one in range(count)]
            combine(op, [slot.view(flat.dtype) for slot in slots], result)
            return result.view(np.uint8)

        def merge(lower: Bytes, upper: Bytes) -> Bytes:
            merged = np.empty_like(flat)
            combine(op, [lower.view(flat.dtype), upper.view(flat.dtype)], merged)
            return merged.view(np.uint8)

        result, detail = np.empty_like(flat), _detail(flat, op)
        found = meeting.meet(call, (flat.view(np.uint8),), waiting, detail, reduce_here, merge)
        if meeting.is_alone:
            reduce_here()
            return result
        shared = segment.ring(0)[:nbytes].view(flat.dtype)
        if found is not None:
            arrays = [np.frombuffer(body, np.uint8) for body in found]
            if any(array.nbytes != nbytes for array in arrays):
                raise MessageError(f"a machine sent a sum of other than {nbytes} bytes")
            combine(op, [array.view(flat.dtype) for array in arrays], shared)
            meeting.go()
        return shared

    def _reduce_on_board(self, part: Array, op: str, waiting: Waiting, call: Call) -> Array:
        meeting, machine = self._meeting, self._meeting.machine
        board = meeting.segment.board(0, part.nbytes).view(part.dtype)
        here = part
        if machine.count > 1:
            self._reduce_here(part, op, board, waiting)
            machine.meet(waiting)
            here = board
        if meeting.is_alone:
            return here
        if meeting.is_leader:
            self._step = meeting.between.reduce(
                meeting.turn, self._step, here, board, op, waiting, call
            )
        machine.meet(waiting, 2 * REPORT_S)
        return board

    def _reduce_here(self, part: Array, op: str, board: Array, waiting: Waiting) -> None:
        """Add the arrays of this machine's members, block by block."""
        machine, segment = self._meeting.machine, self._meeting.segment
        mine, count, dtype = machine.index, machine.count, part.dtype
        chunk = BLOCK_BYTES // count // part.itemsize
        per_block = chunk * count
        num_blocks, first = -(-part.size // per_block), self._num_blocks
        for number in range(num_blocks + 1):
            if number < num_blocks:
                if number >= RING_BLOCKS:
                    machine.wait(OUT, first + number - RING_BLOCKS + 1, waiting)
                block = segment.block(mine, first + number).view(dtype)
                inputs = part[number * per_block : (number + 1) * per_block]
                before = inputs[: mine * chunk]
                block[: before.size] = before
                after = inputs[(mine + 1) * chunk :]
                block[(mine + 1) * chunk : (mine + 1) * chunk + after.size] = after
                machine.publish(IN, first + number + 1)
            if number:
                machine.wait(IN, first + number, waiting)
                start = (number - 1) * per_block + mine * chunk
                stop = min(start + chunk, part.size)
                if start < stop:
                    there = slice(mine * chunk, mine * chunk + stop - start)
                    arrays = [
                        part[start:stop]
                        if one == mine
                        else segment.block(one, first + number - 1).view(dtype)[there]
                        for one in range(count)
                    ]
                    combine(op, arrays, board[start:stop])
                machine.publish(OUT, first + number)
        self._num_blocks += num_blocks


def _copying(result: Array) -> Fill:
    def fill(out: Array, start: int, stop: int) -> None:
        out[...] = result[start:stop]

    return fill


def _detail(flat: Array, op: str) -> str:
    return f"{op} of {flat.nbytes} bytes"

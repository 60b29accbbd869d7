"""Meetings of many machines' leaders, in a logarithmic number of rounds."""

# Note [Meetings of many machines]
# Up to MOST_DIRECT leaders send each other their data in one round. More leaders exchange in pairs.
# In round k, leader i, whose bit k is 0, exchanges data with leader i + 2^k. Each of the two sends
# the data of its block of 2^k leaders. So each leader sends log2(n) messages, not n - 1. If n is
# not a power of two, the last leaders send their data to the first ones before round 0, and get
# the result after the last round.
# Both leaders of a pair add the same two blocks in the same order, the lower block first. So all
# leaders get bitwise equal results, which depend only on the number of machines.
# In a later round, a leader may wait for a partner that still waits for its own partner in an
# earlier round. The time limit of a later round is longer. So the leader whose partner is really
# missing fails first, and reports that partner's name.
# Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations
# in MPICH" (2005), recursive doubling.

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from fastdist.core.errors import MessageError
from fastdist.distributed.pipe.frames import Buffer

from .calls import shared_of
from .records import Bytes

MOST_DIRECT: Final = 3

_COUNT: Final = struct.Struct("<I")
# The length of a text in bytes, and the number of machines whose calls it describes.
_TEXT: Final = struct.Struct("<II")
# The index of a machine, and the size of its data in bytes.
_DATA: Final = struct.Struct("<IQ")

# Returns the combined data of two blocks; the lower block's data is the first argument.
Merge = Callable[[Bytes, Bytes], Bytes]


def rounds_of(number: int, count: int) -> list[tuple[str, int, int]]:
    """Return a leader's actions in a meeting of `count` leaders, as (action, other leader, step).

    The actions are "send", "receive" and "exchange". Both leaders of a pair use the same step.
    """
    power = 1 << (count.bit_length() - 1)
    extra, steps = count - power, power.bit_length() - 1
    if number >= power:
        return [("send", number - power, 0), ("receive", number - power, steps + 1)]
    found: list[tuple[str, int, int]] = []
    if number < extra:
        found.append(("receive", number + power, 0))
    found.extend(("exchange", number ^ (1 << bit), bit + 1) for bit in range(steps))
    if number < extra:
        found.append(("send", number + power, steps + 1))
    return found


class Known:
    """The texts and data of the machines that a leader knows about.

    With `merge`, the data of the machines in a block is combined into one array. Otherwise the data
    of each machine is stored separately. If the texts describe different calls, no data is stored.
    """

    def __init__(self, number: int, text: bytes, data: Bytes, merge: Merge | None) -> None:
        self.texts: dict[bytes, list[int]] = {text: [number]}
        self.data: dict[int, Bytes] = {number: data}
        self._merge = merge

    def encode(self) -> tuple[bytes, bytes]:
        """Return the two parts of a message: the texts and the data."""
        parts = [_COUNT.pack(len(self.texts))]
        for text, machines in self.texts.items():
            parts.append(_TEXT.pack(len(text), len(machines)) + text)
            parts.append(np.array(machines, "<u4").tobytes())
        heads = [_DATA.pack(number, data.nbytes) for number, data in self.data.items()]
        blocks = [data.tobytes() for data in self.data.values()]
        return b"".join(parts), b"".join([_COUNT.pack(len(heads)), *heads, *blocks])

    def add(self, body: Sequence[Buffer], count: int) -> None:
        """Add the knowledge of another leader, out of `count` leaders.

        Raises  MessageError for an invalid message
        """
        texts, data = _decode(body, count)
        self._put(texts, data)

    def replace(self, body: Sequence[Buffer], count: int) -> None:
        """Replace the texts and data of this leader by those in another leader's message."""
        self.texts, self.data = _decode(body, count)

    def in_order(self, count: int) -> list[bytes]:
        """Return the texts of all machines, ordered by machine.

        Raises  MessageError if a text is missing
        """
        by_number = {one: text for text, machines in self.texts.items() for one in machines}
        if sorted(by_number) != list(range(count)):
            raise MessageError(f"the calls of {len(by_number)} of {count} machines came")
        return [by_number[number] for number in range(count)]

    def _put(self, texts: dict[bytes, list[int]], data: dict[int, Bytes]) -> None:
        for text, machines in texts.items():
            self.texts.setdefault(text, []).extend(machines)
        if len({shared_of(text) for text in self.texts}) > 1:
            self.data = {}
        elif self._merge is None:
            self.data.update(data)
        elif self.data and data:
            (mine, my_data), (theirs, their_data) = *self.data.items(), *data.items()
            if my_data.nbytes != their_data.nbytes:
                raise MessageError(f"a machine sent other than {my_data.nbytes} bytes")
            pair = (my_data, their_data) if mine < theirs else (their_data, my_data)
            self.data = {min(mine, theirs): self._merge(*pair)}


def _decode(body: Sequence[Buffer], count: int) -> tuple[dict[bytes, list[int]], dict[int, Bytes]]:
    calls, blocks = bytes(body[0]), np.frombuffer(body[1], np.uint8)
    texts: dict[bytes, list[int]] = {}
    try:
        (left,), at = _COUNT.unpack_from(calls), _COUNT.size
        for _ in range(min(left, count)):
            length, number = _TEXT.unpack_from(calls, at)
            at += _TEXT.size
            text, at = calls[at : at + length], at + length
            texts[text] = np.frombuffer(calls, "<u4", number, at).tolist()
            at += 4 * number
        (num_blocks,) = _COUNT.unpack_from(body[1])
        heads = [
            _DATA.unpack_from(body[1], _COUNT.size + one * _DATA.size)
            for one in range(min(num_blocks, count))
        ]
    except (struct.error, ValueError) as error:
        raise MessageError(f"not the calls of machines: {error}") from error
    machines = [one for numbers in texts.values() for one in numbers]
    at = _COUNT.size + len(heads) * _DATA.size
    if at + sum(size for _, size in heads) != blocks.nbytes or not all(
        one < count for one in (*machines, *(one for one, _ in heads))
    ):
        raise MessageError(f"the calls of machines {machines} with {blocks.nbytes} bytes")
    data = {}
    for one, size in heads:
        data[one] = blocks[at : at + size]
        at += size
    return texts, data

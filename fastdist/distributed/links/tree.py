"""Meetings of the leaders of many machines, in as many rounds as the logarithm of their number."""

# Note [Meetings of many machines]
# Up to MOST_DIRECT leaders send each other what they have, in one round. More of them exchange in
# pairs: in round k, leader i and leader i + 2^k (where i has no bit k) exchange what they know of
# the blocks of 2^k leaders that they belong to. Each sends log2(n) messages, not n - 1. Where n is
# not a power of two, the last ones hand what they have to the first ones before that, and get the
# result afterwards.
# Both leaders of a pair add the same two blocks in the same order, the lower block first: all get
# the same bits, which depend on the number of machines alone.
# One that waits in a later round waits for one that may itself wait. It gives that one longer, so
# that the one whose partner is missing reports first, and by name.
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
# The bytes of a text, and how many machines have it.
_TEXT: Final = struct.Struct("<II")
# A machine, and the bytes of its data.
_DATA: Final = struct.Struct("<IQ")

# Returns the data of two blocks as one, the lower block's given first.
Merge = Callable[[Bytes, Bytes], Bytes]


def rounds_of(number: int, count: int) -> list[tuple[str, int, int]]:
    """Return the actions of a leader in a meeting of `count`: (action, other leader, step).

    The actions are "send", "receive" and "exchange"; a step is the same at both ends.
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
    """The texts and the data of those machines that a leader knows of.

    With `merge` the data of a block is one; without, each machine keeps its own. Where texts are
    of different calls there is no data.
    """

    def __init__(self, number: int, text: bytes, data: Bytes, merge: Merge | None) -> None:
        self.texts: dict[bytes, list[int]] = {text: [number]}
        self.data: dict[int, Bytes] = {number: data}
        self._merge = merge

    def encode(self) -> tuple[bytes, bytes]:
        """Return the two parts of a message: the texts, and the data."""
        parts = [_COUNT.pack(len(self.texts))]
        for text, machines in self.texts.items():
            parts.append(_TEXT.pack(len(text), len(machines)) + text)
            parts.append(np.array(machines, "<u4").tobytes())
        heads = [_DATA.pack(number, data.nbytes) for number, data in self.data.items()]
        blocks = [data.tobytes() for data in self.data.values()]
        return b"".join(parts), b"".join([_COUNT.pack(len(heads)), *heads, *blocks])

    def add(self, body: Sequence[Buffer], count: int) -> None:
        """Take in what another leader of `count` knows.

        Raises  MessageError for what no leader sends
        """
        texts, data = _decode(body, count)
        self._put(texts, data)

    def replace(self, body: Sequence[Buffer], count: int) -> None:
        """Replace this leader's knowledge by that of another one."""
        self.texts, self.data = _decode(body, count)

    def in_order(self, count: int) -> list[bytes]:
        """Return the texts of all machines, by their numbers.

        Raises  MessageError if one is missing
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

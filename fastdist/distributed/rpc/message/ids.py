"""The readable form of ids, and its parser."""

from __future__ import annotations

import os
import re
from typing import Final

# Note [Ids that can be read]
# An id is rank << 48 | number. Contexts, passes, calls, autograd messages, values of RRefs and
# references to these values have ids. All output for people (errors, DEBUG lines, explain and its
# picture) shows an id as `rank:number`. In an error that begins with PyTorch's text, the decimal
# form of the id precedes this form. Numbers begin with 0, except in groups where a rank may have
# several lives. In such a group, 32 random bits of each life are the upper part of its numbers.
# This part is shown in hexadecimal, and a point follows it: `1:5c0e91b7.12`. After 32768 ids of a
# life the hexadecimal part increases by one.

RANK_SHIFT: Final = 48
MAX_WORKER_ID: Final = 65535
LOCAL: Final = (1 << RANK_SHIFT) - 1
_COUNT_BITS: Final = 15
_COUNT: Final = (1 << _COUNT_BITS) - 1
# A number below this is shown in decimal only. A life that counts from 0 takes hours to reach it.
_LONG: Final = 1 << 32

_FORM = re.compile(r"(\d+):(?:([0-9a-f]{1,9})\.)?(\d+)")


def random_id_offset() -> int:
    """Return a random first number for the ids of a life whose rank may have earlier lives.

    Note    from this number on, at least half of all 48-bit numbers remain for counting
    """
    return int.from_bytes(os.urandom(4), "little") << _COUNT_BITS


def id_text(number: int) -> str:
    """Return an id in readable form. See Note [Ids that can be read]."""
    if number < 0:
        return str(number)  # a negative number is not an id; it means "no context", for example
    rank, local = number >> RANK_SHIFT, number & LOCAL
    if local < _LONG:
        return f"{rank}:{local}"
    return f"{rank}:{local >> _COUNT_BITS:x}.{local & _COUNT}"


def with_decimal(number: int) -> str:
    """Return the decimal form of an id, as in PyTorch's texts, followed by the readable form."""
    return str(number) if number < 0 else f"{number} ({id_text(number)})"


def read_id(text: str) -> int | None:
    """Parse an id in its readable or decimal form; None for any other text."""
    if (form := _FORM.fullmatch(text)) is not None:
        rank, life, count = form.groups()
        head = 0 if life is None else int(life, 16) << _COUNT_BITS
        return int(rank) << RANK_SHIFT | head + int(count)
    return int(text) if text.isdecimal() else None

"""The form in which people read workers' ids, and in which they are parsed."""

from __future__ import annotations

import os
import re
from typing import Final

# Note [Ids that can be read]
# An id is rank << 48 | number: of contexts, passes, calls, messages of autograd, values of RRefs
# and references to them. People read `rank:number`, everywhere alike: in errors, at DEBUG, in
# explain and its picture. Where an error begins as PyTorch's does its decimal stands before that.
# Numbers begin with 0, but where a rank may have several lives: there each life begins behind 32
# random bits, told in hexadecimal and set off by a point, `1:5c0e91b7.12`. So 32768 ids of a life
# begin alike, and what follows is the next of them.

RANK_SHIFT: Final = 48
MAX_WORKER_ID: Final = 65535
LOCAL: Final = (1 << RANK_SHIFT) - 1
_COUNT_BITS: Final = 15
_COUNT: Final = (1 << _COUNT_BITS) - 1
# A life that counts from 0 uses decimals up to here, later than any that counts in hours.
_LONG: Final = 1 << 32

_FORM = re.compile(r"(\d+):(?:([0-9a-f]{1,9})\.)?(\d+)")


def random_id_offset() -> int:
    """Return where a life that may not be its rank's first begins to count.

    Note    half of the 48 bits that a number has, at least, are left to count in
    """
    return int.from_bytes(os.urandom(4), "little") << _COUNT_BITS


def id_text(number: int) -> str:
    """Return an id as people read it. See Note [Ids that can be read]."""
    if number < 0:
        return str(number)  # no id: that of no context, say
    rank, local = number >> RANK_SHIFT, number & LOCAL
    if local < _LONG:
        return f"{rank}:{local}"
    return f"{rank}:{local >> _COUNT_BITS:x}.{local & _COUNT}"


def with_decimal(number: int) -> str:
    """Return the decimal that PyTorch's texts have, and behind it what can be read."""
    return str(number) if number < 0 else f"{number} ({id_text(number)})"


def read_id(text: str) -> int | None:
    """Return the id that a text stands for: as people read it, or a number; None for others."""
    if (form := _FORM.fullmatch(text)) is not None:
        rank, life, count = form.groups()
        head = 0 if life is None else int(life, 16) << _COUNT_BITS
        return int(rank) << RANK_SHIFT | head + int(count)
    return int(text) if text.isdecimal() else None

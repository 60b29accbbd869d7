"""Converts time ranges to compressed text for messages, and back."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any, Final

from ...core.errors import MessageError
from ...instrumentation.time_ranges import TimeRange

_MOST_BYTES: Final = 1 << 30
# The fields of a TimeRange that are numbers, texts or booleans. A distinct text is written once.
_NUMBERS: Final = (
    *("start_ns", "stop_ns", "thread_id", "node_id", "flow_id", "kernel_id"),
    *("flops", "memory_bytes", "device_memory_bytes", "sequence_nr"),
)
_TEXTS: Final = ("name", "category", "thread_name", "module", "device")
_FLAGS: Final = ("is_remote", "is_async")
_PLAIN: Final = (*_NUMBERS, *_TEXTS, *_FLAGS)


def pack_ranges(ranges: Sequence[TimeRange], most_bytes: int = _MOST_BYTES) -> bytes:
    """Return ranges as bytes; while these are more than `most_bytes`, drop the later half of the
    ranges.

    Each distinct text and stack is written once.
    """
    texts: dict[str, int] = {}
    stacks: dict[tuple[str, ...], int] = {}
    rows = []
    for known in ranges:
        numbers = [getattr(known, name) for name in _NUMBERS]
        words = [texts.setdefault(getattr(known, name), len(texts)) for name in _TEXTS]
        flags = [int(getattr(known, name)) for name in _FLAGS]
        stack = stacks.setdefault(known.stack, len(stacks))
        rows.append([*numbers, *words, *flags, known.shapes, stack])
    places = [[texts.setdefault(entry, len(texts)) for entry in stack] for stack in stacks]
    told = json.dumps([list(texts), places, rows], separators=(",", ":"))
    packed = zlib.compress(told.encode(), 1)
    if len(packed) > most_bytes and ranges:
        return pack_ranges(ranges[: len(ranges) // 2], most_bytes)
    return packed


def unpack_ranges(packed: object, sender: int) -> list[TimeRange]:
    """Return the ranges from bytes of pack_ranges.

    Raises  MessageError for invalid bytes, which come from another worker
    """
    if not isinstance(packed, bytes):
        raise MessageError(f"time ranges of worker {sender} are {packed!r}, expected bytes")
    try:
        reader = zlib.decompressobj()
        text = reader.decompress(packed, _MOST_BYTES)
        if not reader.eof:
            raise ValueError("they are cut off, or too many")
        texts, places, rows = json.loads(text)
        stacks = [tuple([_text(texts, place) for place in stack]) for stack in places]
        return [_range_of(texts, stacks, row) for row in rows]
    except (zlib.error, ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
        raise MessageError(f"time ranges of worker {sender} cannot be read: {error}") from error


def _range_of(texts: list[Any], stacks: list[tuple[str, ...]], row: list[Any]) -> TimeRange:
    *plain, shapes, stack = row
    values: dict[str, Any] = dict(zip(_PLAIN, plain, strict=True))
    values |= {name: _number(values[name]) for name in _NUMBERS}
    values |= {name: _text(texts, values[name]) for name in _TEXTS}
    values |= {name: bool(_number(values[name])) for name in _FLAGS}
    shapes = tuple([tuple([_number(n) for n in shape]) for shape in shapes])
    return TimeRange(**values, shapes=shapes, stack=stacks[_number(stack)])


def _number(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not a number")
    return value


def _text(texts: list[Any], place: object) -> str:
    found = texts[_number(place)]
    if not isinstance(found, str):
        raise ValueError(f"{found!r} is not a text")
    return found

"""The arguments of a store's requests as bytes, and its answers as results or errors."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from datetime import timedelta

from fastdist.core.errors import RankTakenError, StoreError, StoreLostError, StoreTimeoutError
from fastdist.system.foreign_text import one_line

from .requests import NUM_OF_JOIN, Op, Status, require_fits, words

_NUMBERS = (Op.ADD, Op.NUM_KEYS, Op.QUEUE_LENGTH)
_NUM_FRAMES = {
    **dict.fromkeys((*_NUMBERS, Op.CHECK, Op.COMPARE_SET, Op.DELETE), 1),
    **dict.fromkeys((Op.ENTER, Op.LAST_AT), 2),
}

# A timeout is a timedelta or a number of seconds.
Timeout = timedelta | float


def require_ok(
    store: str, op: Op, arguments: list[bytes], status: Status, frames: list[bytes], waited_s: float
) -> list[bytes]:
    """Return the frames of a successful answer; raise the error of any other answer."""
    if status is Status.OK:
        _require_answers(store, op, arguments, frames)
        return frames
    if status is Status.REFUSED:
        why, *claims = frames or [b""]
        told = f"{store}: {one_line(why)}"
        raise RankTakenError(told, claims) if claims else StoreError(told)
    names = [frame.decode(errors="replace") for frame in frames]
    if status is Status.ENDED:
        raise StoreLostError(
            f"{store} was closed by its host; not there yet: {one_line(', '.join(names))}", names
        )
    if op is Op.JOIN:
        group = arguments[0].decode(errors="replace")
        raise not_all_joined(store, group, int(arguments[2]), names, waited_s)
    shown = ", ".join(repr(name) for name in names[:8]) + (", ..." if len(names) > 8 else "")
    keys = ", ".join(f"/{one_line(name)}" for name in names[:8])
    num_keys = 1 if op is Op.POP else len(arguments)
    raise StoreTimeoutError(
        f"wait timeout after {waited_s * 1e3:.0f}ms, keys: {keys}: "
        f"{store}: {op.name.lower()}: {len(names)} of {num_keys} keys did not appear "
        f"within {waited_s:g} s: {shown}; raise the timeout, or check the workers that should "
        "have set them",
        names,
    )


def _require_answers(store: str, op: Op, arguments: list[bytes], frames: list[bytes]) -> None:
    """Raise StoreError unless frames are a valid answer to op."""
    expected = _NUM_FRAMES.get(op, 0)
    if op is Op.GET:
        expected = len(arguments)
    elif op is Op.JOIN:
        is_plain = len(arguments) < NUM_OF_JOIN[1]
        expected = int(arguments[2]) if is_plain else len(frames) and len(words(arguments[8]))
    elif op is Op.MEMBERS:
        expected = len(arguments) - 1
    elif op is Op.CHANGES:
        expected = max(3, len(frames))
    elif op is Op.QUERY_HOST:
        expected = max(1, len(frames))
    elif op is Op.KEYS or (op is Op.POP and arguments[1] != b"1"):
        expected = len(frames)
    elif op is Op.POP:
        expected = 1
    if len(frames) != expected or (
        op in _NUMBERS and not re.fullmatch(rb"-?\d{1,4000}", frames[0])
    ):
        raise StoreError(
            f"{store} answered {op.name.lower()} with {len(frames)} frames of something else: it "
            "has another version, or is not a fastdist store"
        )


def not_all_joined(
    store: str,
    group: str,
    world_size: int,
    missing: Sequence[str],
    waited_s: float,
    lost: StoreLostError | None = None,
) -> StoreTimeoutError:
    """Return the error of a join that some members did not call in time."""
    why = "" if lost is None else f"; {lost}"
    ranks = one_line(", ".join(missing))
    more = [int(one.split()[0]) - 1 for one in missing[-1:] if re.fullmatch(r"\d{1,9} more", one)]
    # Keys of the store itself begin with a zero byte.
    place = store if group.startswith("\0") else f"{store}, key {group!r}"
    return StoreTimeoutError(
        f"{len(missing) + sum(more)} of {world_size} ranks did not join within {waited_s:.4g} s: "
        f"{ranks}; start a process for each rank, or read the output of a process that has ended "
        f"(they meet at {place}){why}",
        missing,
    )


def seconds(timeout: Timeout) -> float:
    """Return a timeout in seconds.

    Raises  StoreError unless it is a timedelta or a number, and not negative
    """
    if isinstance(timeout, timedelta):
        given = timeout.total_seconds()
    elif isinstance(timeout, (int, float)) and not isinstance(timeout, bool):
        given = float(timeout)
    else:
        raise StoreError(f"timeout is {timeout!r}; expected a timedelta or a number of seconds")
    if not given >= 0:
        raise StoreError(f"timeout is {given:g} s; expected 0 or more")
    return min(given, threading.TIMEOUT_MAX)


def key_bytes(key: str) -> bytes:
    """Return a key as it is stored."""
    if not isinstance(key, str):
        raise StoreError(f"key is {key!r}; expected text")
    encoded = key.encode()
    require_fits(encoded, b"")
    return encoded


def value_bytes(value: str | bytes) -> bytes:
    """Return a value as it is stored."""
    if isinstance(value, str):
        value = value.encode()
    elif not isinstance(value, (bytes, bytearray, memoryview)):
        raise StoreError(f"value is {value!r}; expected text or bytes")
    kept = bytes(value)
    require_fits(b"", kept)
    return kept

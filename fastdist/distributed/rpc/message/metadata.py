"""The encoding of a message's metadata: names with numbers, texts, bytes and lists of these."""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from typing import Final, TypeAlias, Union

from fastdist.core.errors import MessageError

Value: TypeAlias = Union[bool, int, float, str, bytes, "tuple[Value, ...]", "list[Value]", None]

MAX_NESTING: Final = 64

# Each struct begins with a letter, the code for the type of the value.
_INT64: Final = struct.Struct("<cq")
_UINT64: Final = struct.Struct("<cQ")
_FLOAT64: Final = struct.Struct("<cd")
_LENGTH: Final = struct.Struct("<cI")
_INT64_RANGE: Final = range(-(1 << 63), 1 << 63)
_UINT64_RANGE: Final = range(1 << 64)


def encode_metadata(values: Mapping[str, Value], nesting: int = MAX_NESTING) -> bytes:
    """Return the encoded values; lists may nest at most `nesting` deep.

    Raises  MessageError for a value of another type, an int beyond 64 bits, or a deeper list
    """
    pieces: list[bytes] = []
    for name, value in values.items():
        pieces.append(_encoded_name(name))
        # The fast path: most values are ids, so they are ints.
        if value.__class__ is int and value in _INT64_RANGE:
            pieces.append(_INT64.pack(b"i", value))
        else:
            _put(value, pieces, nesting)
    return b"".join(pieces)


# Cached, as this package uses only a few names.
@functools.lru_cache(256)
def _encoded_name(name: str) -> bytes:
    pieces: list[bytes] = []
    _put(name, pieces, 0)
    return b"".join(pieces)


def decode_metadata(encoded: bytes, nesting: int = MAX_NESTING) -> dict[str, Value]:
    """Return the values that `encode_metadata` has encoded; lists are returned as tuples.

    Raises  MessageError for bytes that encode_metadata does not write
    """
    try:
        return _decoded(encoded, nesting)
    except struct.error as error:
        raise MessageError("metadata ends in the middle of a value") from error
    except UnicodeDecodeError as error:
        raise MessageError("metadata: a text that is not UTF-8") from error


def _put(value: Value, pieces: list[bytes], levels: int) -> None:
    if value.__class__ is int and value in _INT64_RANGE:
        pieces.append(_INT64.pack(b"i", value))
    elif value is True or value is False:
        pieces.append(b"t" if value else b"f")
    elif isinstance(value, str):
        text = value.encode()
        pieces += (_LENGTH.pack(b"s", len(text)), text)
    elif isinstance(value, tuple | list) and levels:
        pieces.append(_LENGTH.pack(b"l", len(value)))
        for item in value:
            _put(item, pieces, levels - 1)
    elif isinstance(value, bytes):
        pieces += (_LENGTH.pack(b"b", len(value)), value)
    elif value is None:
        pieces.append(b"n")
    elif isinstance(value, float):
        pieces.append(_FLOAT64.pack(b"d", value))
    elif isinstance(value, int):
        if value not in _UINT64_RANGE and value not in _INT64_RANGE:
            raise MessageError(f"metadata: {value} does not fit 64 bits")
        packed, code = (_INT64, b"i") if value in _INT64_RANGE else (_UINT64, b"u")
        pieces.append(packed.pack(code, value))
    else:
        raise MessageError(
            f"metadata: cannot send a {type(value).__name__} with {levels} levels left; known are "
            "None, bool, int, float, str, bytes and lists of them, nested as deep as the limit "
            "nesting= allows"
        )


def _decoded(encoded: bytes, nesting: int) -> dict[str, Value]:
    values: dict[str, Value] = {}
    at, end = 0, len(encoded)
    while at < end:
        code, length = _LENGTH.unpack_from(encoded, at)
        if code != b"s":
            raise MessageError(f"metadata: a name must be a text, not of code {code!r}")
        begin, at = at + _LENGTH.size, at + _LENGTH.size + length
        name = encoded[begin:at].decode()
        if encoded[at : at + 1] == b"i":
            values[name], at = _INT64.unpack_from(encoded, at)[1], at + _INT64.size
        else:
            values[name], at = _take(encoded, at, nesting)
    return values


def _take(encoded: bytes, at: int, levels: int) -> tuple[Value, int]:
    code = encoded[at : at + 1]
    if code == b"i":
        return _INT64.unpack_from(encoded, at)[1], at + _INT64.size
    if code in _CONSTANTS:
        return _CONSTANTS[code], at + 1
    if code in _NUMBERS:
        packed = _NUMBERS[code]
        return packed.unpack_from(encoded, at)[1], at + packed.size
    _, length = _LENGTH.unpack_from(encoded, at)
    at += _LENGTH.size
    end = at + length
    if end > len(encoded):
        raise MessageError(
            f"metadata: {length} items announced, {len(encoded) - at} bytes are left"
        )
    if code == b"s":
        return encoded[at:end].decode(), end
    if code == b"b":
        return encoded[at:end], end
    if code != b"l" or not levels:
        raise MessageError(f"metadata: code {code!r} with {levels} levels left")
    items: list[Value] = []
    for _ in range(length):
        item, at = _take(encoded, at, levels - 1)
        items.append(item)
    return tuple(items), at


_NUMBERS: Final = {b"u": _UINT64, b"d": _FLOAT64}
_CONSTANTS: Final[dict[bytes, Value]] = {b"n": None, b"t": True, b"f": False}

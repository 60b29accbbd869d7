"""The code for a message's small values: names to numbers, texts, bytes and lists of these."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, TypeAlias, Union

from fastdist.core.errors import MessageError

Value: TypeAlias = Union[bool, int, float, str, bytes, "tuple[Value, ...]", "list[Value]", None]

MAX_NESTING: Final = 64

_INT64: Final = struct.Struct("<q")
_UINT64: Final = struct.Struct("<Q")
_FLOAT64: Final = struct.Struct("<d")
_LENGTH: Final = struct.Struct("<I")


def encode_metadata(values: Mapping[str, Value], nesting: int = MAX_NESTING) -> bytes:
    """Return the bytes of values, whose lists nest at most that deep.

    Raises  MessageError for a value of another type, an int beyond 64 bits, or a deeper list
    """
    pieces: list[bytes] = []
    for name, value in values.items():
        _put(name, pieces, nesting)
        _put(value, pieces, nesting)
    return b"".join(pieces)


def decode_metadata(encoded: bytes, nesting: int = MAX_NESTING) -> dict[str, Value]:
    """Return the values of encode_metadata; a list comes back as a tuple.

    Raises  MessageError for anything that encode_metadata does not write
    """
    values: dict[str, Value] = {}
    at = 0
    while at < len(encoded):
        name, at = _take(encoded, at, nesting)
        if not isinstance(name, str):
            raise MessageError(f"metadata: a name must be a text, not {name!r}")
        values[name], at = _take(encoded, at, nesting)
    return values


def _put(value: Value, pieces: list[bytes], levels: int) -> None:
    if value is None:
        pieces.append(b"n")
    elif isinstance(value, bool):
        pieces.append(b"t" if value else b"f")
    elif isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise MessageError(f"metadata: {value} does not fit 64 bits")
        is_large = value >> 63 > 0
        pieces.append(b"u" + _UINT64.pack(value) if is_large else b"i" + _INT64.pack(value))
    elif isinstance(value, float):
        pieces.append(b"d" + _FLOAT64.pack(value))
    elif isinstance(value, str):
        text = value.encode()
        pieces += (b"s", _LENGTH.pack(len(text)), text)
    elif isinstance(value, bytes):
        pieces += (b"b", _LENGTH.pack(len(value)), value)
    elif isinstance(value, tuple | list) and levels:
        pieces += (b"l", _LENGTH.pack(len(value)))
        for item in value:
            _put(item, pieces, levels - 1)
    else:
        raise MessageError(
            f"metadata: cannot send a {type(value).__name__} with {levels} levels left; known are "
            "None, bool, int, float, str, bytes and lists of them, nested as deep as the limit "
            "nesting= allows"
        )


def _take(encoded: bytes, at: int, levels: int) -> tuple[Value, int]:
    code = encoded[at : at + 1]
    at += 1
    if code in _CONSTANTS:
        return _CONSTANTS[code], at
    try:
        if code == b"i":
            return _INT64.unpack_from(encoded, at)[0], at + 8
        if code == b"u":
            return _UINT64.unpack_from(encoded, at)[0], at + 8
        if code == b"d":
            return _FLOAT64.unpack_from(encoded, at)[0], at + 8
        length = _LENGTH.unpack_from(encoded, at)[0]
    except struct.error as error:
        raise MessageError("metadata ends in the middle of a value") from error
    at += 4
    if length > len(encoded) - at:
        raise MessageError(
            f"metadata: {length} items announced, {len(encoded) - at} bytes are left"
        )
    if code == b"s":
        try:
            return encoded[at : at + length].decode(), at + length
        except UnicodeDecodeError as error:
            raise MessageError("metadata: a text that is not UTF-8") from error
    if code == b"b":
        return encoded[at : at + length], at + length
    if code != b"l" or not levels:
        raise MessageError(f"metadata: code {code!r} with {levels} levels left")
    items: list[Value] = []
    for _ in range(length):
        item, at = _take(encoded, at, levels - 1)
        items.append(item)
    return tuple(items), at


_CONSTANTS: Final[dict[bytes, Value]] = {b"n": None, b"t": True, b"f": False}

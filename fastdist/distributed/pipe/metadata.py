"""The code for a message's small values: names to numbers, texts, bytes and lists of these."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, TypeAlias, Union

from fastdist.core.errors import MessageError

Value: TypeAlias = Union[bool, int, float, str, bytes, "tuple[Value, ...]", "list[Value]", None]

MAX_METADATA_BYTES: Final = 1 << 20
_MAX_DEPTH: Final = 8

_INT64: Final = struct.Struct("<q")
_UINT64: Final = struct.Struct("<Q")
_FLOAT64: Final = struct.Struct("<d")
_LENGTH: Final = struct.Struct("<I")


def encode_metadata(values: Mapping[str, Value]) -> bytes:
    """Return the bytes of values.

    Raises  MessageError for a value of another type, an int beyond 64 bits, or more than 1 MiB in
            all
    """
    pieces: list[bytes] = []
    for name, value in values.items():
        _put(name, pieces, 0)
        _put(value, pieces, 0)
    encoded = b"".join(pieces)
    if len(encoded) > MAX_METADATA_BYTES:
        raise MessageError(
            f"metadata of {len(encoded)} bytes; at most {MAX_METADATA_BYTES} fit a message: "
            "send tensors instead"
        )
    return encoded


def decode_metadata(encoded: bytes) -> dict[str, Value]:
    """Return the values of encode_metadata; a list comes back as a tuple.

    Raises  MessageError for anything that encode_metadata does not write
    """
    values: dict[str, Value] = {}
    at = 0
    while at < len(encoded):
        name, at = _take(encoded, at, 0)
        if not isinstance(name, str):
            raise MessageError(f"metadata: a name must be a text, not {name!r}")
        values[name], at = _take(encoded, at, 0)
    return values


def _put(value: Value, pieces: list[bytes], depth: int) -> None:
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
    elif isinstance(value, tuple | list) and depth < _MAX_DEPTH:
        pieces += (b"l", _LENGTH.pack(len(value)))
        for item in value:
            _put(item, pieces, depth + 1)
    else:
        raise MessageError(
            f"metadata: cannot send a {type(value).__name__} at depth {depth}; "
            "known are None, bool, int, float, str, bytes and lists of them, "
            f"nested at most {_MAX_DEPTH} deep"
        )


def _take(encoded: bytes, at: int, depth: int) -> tuple[Value, int]:
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
    if code != b"l" or depth >= _MAX_DEPTH:
        raise MessageError(f"metadata: unknown code {code!r} at depth {depth}")
    items: list[Value] = []
    for _ in range(length):
        item, at = _take(encoded, at, depth + 1)
        items.append(item)
    return tuple(items), at


_CONSTANTS: Final[dict[bytes, Value]] = {b"n": None, b"t": True, b"f": False}

"""Forged pickles, assembled opcode by opcode, that no worker writes."""

from __future__ import annotations

import struct

START = b"\x80\x05"
STOP = b"."
MARK, MEMOIZE, REDUCE, NEWOBJ, BUILD = b"(", b"\x94", b"R", b"\x81", b"b"


def text(value: str) -> bytes:
    """Return the opcode that pushes a text."""
    encoded = value.encode()
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def data(value: bytes) -> bytes:
    """Return the opcode that pushes bytes."""
    return b"B" + struct.pack("<I", len(value)) + value


def number(value: int) -> bytes:
    """Return the opcode that pushes a number."""
    encoded = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8b" + struct.pack("<I", len(encoded)) + encoded


def named(module: str, name: str) -> bytes:
    """Return the opcodes that look up a name of a module."""
    return text(module) + text(name) + b"\x93"


def tuple_of(*items: bytes) -> bytes:
    """Return the opcodes of a tuple."""
    return MARK + b"".join(items) + b"t"


def call(callable_: bytes, *args: bytes) -> bytes:
    """Return the opcodes of a call by REDUCE."""
    return callable_ + tuple_of(*args) + REDUCE


def get(index: int) -> bytes:
    """Return the opcode that pushes a memoized value."""
    return b"j" + struct.pack("<I", index)


def pickled(*opcodes: bytes) -> bytes:
    """Return a complete pickle."""
    return START + b"".join(opcodes) + STOP


_NUMPY = "fastdist.distributed.rpc.message.numpy_values"


def grown_array(itemsize: int) -> bytes:
    """Return opcodes of a 16-byte array whose dtype is enlarged after the array was created."""
    state = tuple_of(number(3), text("|"), b"NNN", number(itemsize), number(1), number(0))
    dtype = call(named(_NUMPY, "rebuild_dtype"), text("|S1")) + MEMOIZE  # memo 0
    empty = call(
        named(_NUMPY, "rebuild_array"), text("|S1"), tuple_of(number(1)), text("C"), data(b"A")
    )
    filled = tuple_of(number(1), tuple_of(number(16)), get(0), b"\x89", data(b"A" * 16))
    return (
        dtype
        + b"0"
        + empty
        + filled
        + BUILD
        + MEMOIZE
        + b"0"
        + get(0)
        + state
        + BUILD
        + b"0"
        + get(1)
    )


def array_with_field_outside(offset: int) -> bytes:
    """Return opcodes of a 16-byte array with a field that begins beyond the array's end."""
    field = call(named(_NUMPY, "rebuild_dtype"), text("<i8")) + MEMOIZE + b"0"  # memo 0
    outer = call(named(_NUMPY, "rebuild_dtype"), text("<i8")) + MEMOIZE  # memo 1
    fields = b"}" + text("a") + tuple_of(get(0), number(offset)) + b"s"
    state = tuple_of(
        number(3), text("|"), b"N", tuple_of(text("a")), fields, number(8), number(1), number(0)
    )
    empty = call(
        named(_NUMPY, "rebuild_array"), text("<i8"), tuple_of(number(1)), text("C"), data(bytes(8))
    )
    filled = tuple_of(number(1), tuple_of(number(2)), get(1), b"\x89", data(bytes(16)))
    return field + outer + state + BUILD + b"0" + empty + filled + BUILD


def hidden_by_a_frame(opcodes: bytes) -> bytes:
    """Return a pickle with opcodes in a bytes object, which run if a frame ends inside the object.

    At the end of a frame the Unpickler drops unread bytes. Here the dropped byte is the first byte
    of the length. The Unpickler then reads the next three bytes and the first byte of the data as
    the length.
    """
    inside = b"\0" + b"0" + opcodes
    length = struct.pack("<I", len(inside))
    assert length[1:] == bytes(3)
    return START + b"\x95" + struct.pack("<Q", 2) + b"B" + length + inside + STOP

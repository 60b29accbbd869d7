"""The limits of messages that a worker sends and accepts: sizes, counts and depths, as options."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from fastdist.distributed.sockets import MAX_CONNECTIONS, set_wire_limits
from fastdist.distributed.sockets.options import HANDSHAKE_MS, MAX_FRAME_BYTES

from .layout import FRAME_BYTES, HEADER, MAX_BYTES, MAX_HEADER_BYTES, MAX_TENSORS
from .metadata import MAX_NESTING

# Below this even a greeting might not fit a frame.
_LEAST_FRAME = 4096
_DEEPEST = 256


@dataclass(frozen=True)
class Limits:
    """The limits of one worker, which it sends to the others when they meet.

    Nobody sends more than the receiver accepts. `message_bytes` is a whole message, `header_bytes`
    its header with the metadata but without tables and body, `nesting` how deep values of the
    metadata, and in strict mode of a body, may nest; `frame_bytes` is the size of one piece, and
    `wire_frame_bytes` the size that ends the connection. `connections` are those of one member, and
    `handshake_s` is how long a new one may take for its handshake. Calls to one peer without an
    answer are at most `outstanding_calls`, and `outstanding_bytes` in all; for a worker that has
    left so many bytes of answers unread (4 MiB at least) the next calls begin when half of that is
    read.

    Raises  ValueError for a value that is not a number, or too small to work with
    """

    message_bytes: int = MAX_BYTES
    header_bytes: int = MAX_HEADER_BYTES
    nesting: int = MAX_NESTING
    tensors: int = MAX_TENSORS
    frame_bytes: int = FRAME_BYTES
    wire_frame_bytes: int = MAX_FRAME_BYTES
    connections: int = MAX_CONNECTIONS
    handshake_s: float = HANDSHAKE_MS / 1000
    outstanding_bytes: int = 256 << 20
    outstanding_calls: int = 100_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 1
            if field.name in ("message_bytes", "header_bytes", "frame_bytes"):
                least = _LEAST_FRAME
            kinds = (int, float) if field.name == "handshake_s" else (int,)
            if isinstance(value, bool) or not isinstance(value, kinds) or not value >= least:
                number = "number of seconds" if field.name == "handshake_s" else "whole number"
                raise ValueError(f"{field.name} is {value!r}; expected a {number}, {least} or more")
        if self.nesting > _DEEPEST:
            raise ValueError(f"nesting is {self.nesting}; expected at most {_DEEPEST}")
        if self.wire_frame_bytes < self.frame_bytes:
            raise ValueError(
                f"wire_frame_bytes is {self.wire_frame_bytes}, frame_bytes is {self.frame_bytes}; "
                "what is sent in one piece must pass the wire"
            )
        # The most bytes of a message without tables: used at each call.
        body = min(self.frame_bytes, self.message_bytes) - HEADER.size
        object.__setattr__(self, "plain_bytes", body)

    plain_bytes = 0

    def set_for_sockets(self) -> None:
        """Let sockets that this process makes from now on keep to these limits."""
        set_wire_limits(self.wire_frame_bytes, round(self.handshake_s * 1000))

    def towards(self, theirs: Limits) -> Limits:
        """Return the limits for messages from a worker with these limits to one with others."""
        return replace(
            self, **{name: min(getattr(self, name), getattr(theirs, name)) for name in _TAKEN}
        )


_TAKEN = ("message_bytes", "header_bytes", "nesting", "tensors", "frame_bytes", "connections")
DEFAULT = Limits()

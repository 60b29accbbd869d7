"""The limits for messages that a worker sends and accepts, as options: sizes, counts, depths."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache

from fastdist.distributed.sockets import MAX_CONNECTIONS, set_wire_limits
from fastdist.distributed.sockets.options import HANDSHAKE_MS, MAX_FRAME_BYTES

from .layout import FRAME_BYTES, HEADER, MAX_BYTES, MAX_HEADER_BYTES, MAX_TENSORS
from .metadata import MAX_NESTING

# The least value of a limit in bytes: the messages of a handshake may not fit into smaller frames.
_LEAST_FRAME = 4096
_DEEPEST = 256


@dataclass(frozen=True)
class Limits:
    """The limits of one worker, which it sends to other workers when it connects.

    A sender obeys the receiver's limits. `message_bytes` limits a whole message. `header_bytes`
    limits its header with the metadata, without tables and body. `nesting` limits the depth of
    values in the metadata and, in strict mode, in a body. `frame_bytes` limits one frame; a frame
    above `wire_frame_bytes` ends the connection. `connections` limits the connections of each
    member, and `handshake_s` the time of a handshake. At most `outstanding_calls` calls to one peer
    may be without an answer; their requests have at most `outstanding_bytes` together. When a
    worker has `outstanding_bytes` (at least 4 MiB) of unread answers, its next calls wait until
    half of these bytes are read.

    Raises  ValueError for a value that is not a number, or is too small to work with

    Args:
        tensors: The most tensors in one message.
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
        # The most bytes that follow the header of a message in one frame. The number is stored
        # because each call reads it.
        body = min(self.frame_bytes, self.message_bytes) - HEADER.size
        object.__setattr__(self, "plain_bytes", body)

    plain_bytes = 0

    def set_for_sockets(self) -> None:
        """Apply these limits to sockets that this process creates from now on."""
        set_wire_limits(self.wire_frame_bytes, round(self.handshake_s * 1000))

    def towards(self, theirs: Limits) -> Limits:
        """Return the limits for messages from a worker with these limits to a worker with `theirs`.

        Note    the result is `theirs` itself if both Limits are equal, as mostly within a job
        """
        if theirs == self:
            return theirs
        return replace(
            self, **{name: min(getattr(self, name), getattr(theirs, name)) for name in _TAKEN}
        )


@lru_cache(maxsize=16, typed=True)
def limits_of(**values: float) -> Limits:
    """Return the limits with these values; equal limits are one object, checked once.

    Raises  the errors of Limits; TypeError for a value that cannot be hashed, or an unknown name
    """
    return Limits(**values)  # type: ignore[arg-type]


_TAKEN = ("message_bytes", "header_bytes", "nesting", "tensors", "frame_bytes", "connections")
DEFAULT = Limits()

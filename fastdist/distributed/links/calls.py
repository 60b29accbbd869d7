"""The text that describes a member's call, and the error for members whose calls differ."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from fastdist.core.errors import CollectiveMismatchError
from fastdist.distributed.process_group.transport import Call
from fastdist.system.foreign_text import one_line

from .members import Members
from .segment import CALL_ROOM

_SEPARATOR = "\x1f"
_MOST_SHARED = CALL_ROOM - 256


def encode_call(call: Call, detail: str) -> tuple[bytes, int]:
    """Return the text of a call, and the length of the first part, which must be equal on all
    members.

    `detail` has values of the transport, such as sizes, that must be equal on all members.
    """
    parts = (str(call.sequence), call.name, call.agreed, detail)
    shared = _SEPARATOR.join(parts).encode(errors="replace")
    if len(shared) > _MOST_SHARED:
        digest = hashlib.blake2b(shared, digest_size=16).hexdigest().encode()
        shared = shared[: _MOST_SHARED - len(digest) - 3] + b"..." + digest
    text = shared + b"\n" + call.line.encode(errors="replace")
    return text[:CALL_ROOM], len(shared)


def shared_of(text: bytes) -> bytes:
    """Return the part of a call's text that must be equal on all members."""
    return text.partition(b"\n")[0]


def mismatch(members: Members, texts: Sequence[tuple[int, bytes]]) -> CollectiveMismatchError:
    """Return the error for members whose texts differ; it describes each distinct call once."""
    kinds: dict[bytes, list[tuple[int, bytes]]] = {}
    for member, text in texts:
        kinds.setdefault(shared_of(text), []).append((member, text))
    calls = [_describe(members, alike) for alike in kinds.values()]
    return CollectiveMismatchError(
        "Detected mismatch between collectives on ranks: the members of the group called "
        f"differently: {'; '.join(calls)}"
    )


def _describe(members: Members, alike: Sequence[tuple[int, bytes]]) -> str:
    shared, _, line = alike[0][1].decode(errors="replace").partition("\n")
    sequence, _, rest = shared.partition(_SEPARATOR)
    name, _, rest = rest.partition(_SEPARATOR)
    details = ", ".join(part for part in rest.split(_SEPARATOR) if part)
    what = f"{name} ({details})" if details else name
    who = members.names([member for member, _ in alike])
    return (
        f"{who} called {one_line(what, 400)}, number {one_line(sequence, 24)} of the group, "
        f"at {one_line(line, 200)}"
    )

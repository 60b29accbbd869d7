"""Exceptions that cross workers: their type and state where they pickle, their text always."""

from __future__ import annotations

import traceback

from fastdist.core.errors import RemoteError, RpcError
from fastdist.distributed.pipe.metadata import Value

from .body import deserialize, serialize
from .interceptors import Envelope
from .message_types import MessageType

# The first words of the note that tells where an error comes from. An error that already has such
# a note has crossed a worker before, and keeps the one it has.
_ORIGIN = "On worker "
_MAX_TEXT = 200_000


def pack_error(error: BaseException, worker_name: str, peer: int) -> tuple[Envelope, bytes, int]:
    """Return envelope, body and encoding of a response that raises error at peer."""
    text = "".join(traceback.format_exception(error))
    metadata: dict[str, Value] = {
        "worker": worker_name,
        "type": f"{type(error).__module__}.{type(error).__qualname__}",
        "message": _cut(str(error)),
        "traceback": _cut(text),
    }
    envelope = Envelope(MessageType.EXCEPTION, peer, [], metadata)
    # SystemExit and KeyboardInterrupt are not for the caller to obey.
    if isinstance(error, Exception):
        try:
            body, encoding = serialize(error, envelope.tensors)
            if not envelope.tensors:
                return envelope, body, encoding
        except RpcError:
            pass  # its text goes instead
        envelope.tensors.clear()
    return envelope, b"", 0


def unpack_error(envelope: Envelope, body: bytes, encoding: int) -> Exception:
    """Return the exception of an EXCEPTION response, ready to be raised."""
    metadata = envelope.metadata
    kind, message = metadata.get("type"), metadata.get("message")
    error: Exception
    try:
        error = deserialize(body, encoding, envelope.tensors)
        why = "" if isinstance(error, Exception) else "it does not pickle"
    except Exception as failure:
        why = f"{type(failure).__name__}: {failure}"
    if why:
        error = RemoteError(f"{kind!s}: {message!s} (its own type cannot be raised here: {why})")
    if not any(note.startswith(_ORIGIN) for note in getattr(error, "__notes__", ())):
        error.add_note(f"{_ORIGIN}{metadata.get('worker')!r}:\n{metadata.get('traceback')!s}")
    return error


def _cut(text: str) -> str:
    if len(text) <= _MAX_TEXT:
        return text
    half = _MAX_TEXT // 2
    return f"{text[:half]}\n... {len(text) - _MAX_TEXT} letters left out ...\n{text[-half:]}"

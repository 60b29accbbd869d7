"""Exceptions that are sent to other workers: always as text, with type and state if possible."""

from __future__ import annotations

import reprlib
from collections.abc import Callable

from fastdist.core.errors import RemoteError
from fastdist.core.folded_frames import traceback_text
from fastdist.core.moved_modules import own_name
from fastdist.system.foreign_text import one_line, printable

from .message import Message
from .metadata import Value
from .types import MessageType

# The beginning of the note that names the origin of an error. An error that already has such a note
# came from another worker before, and keeps that note.
_ORIGIN = "On worker "
# A metadata key of an error response. If set, the request's value was not read: Note [Packing].
UNREAD = "unread"
_MAX_TEXT_BYTES = 200_000
_MAX_LINE = 500


def pack_error(
    error: BaseException,
    worker_name: str,
    request: Message | None = None,
    *,
    text_only: bool = False,
) -> Message:
    """Return the response to a request, or to a handshake, that raises `error` at its receiver.

    Note    this function never raises, because a caller waits for the response
    """
    metadata: dict[str, Value] = {
        "worker": worker_name,
        "type": ".".join(own_name(type(error))),
        "message": _cut(text_of(error)),
        "traceback": _cut(text_of(error, traceback_text)),
    }
    response = Message(MessageType.EXCEPTION, metadata=metadata)
    if request is not None:
        response.message_id, response.peer = request.message_id, request.peer
    # SystemExit and KeyboardInterrupt would end the caller, so only their text is sent.
    if isinstance(error, Exception) and not text_only:
        try:
            response.pack(error)
            if response.tensors:
                response.body, response.tensors = b"", []
                metadata["why"] = "it holds tensors, which answers carry, but not errors"
        except BaseException as failure:  # users' pickling methods may raise anything
            why = f"{type(failure).__name__}: {text_of(failure)}"
            metadata["why"] = _cut(f"it does not pickle there: {why}")
    elif not isinstance(error, Exception):
        metadata["why"] = "it would end its caller, which did not request that"
    return response


def unpack_error(response: Message) -> Exception:
    """Return the exception that an EXCEPTION response contains, for the caller to raise."""
    metadata = response.metadata
    kind, message = metadata.get("type"), metadata.get("message")
    error: Exception
    try:
        error = response.value()
        why = "" if isinstance(error, Exception) else "it does not pickle"
    except Exception as failure:
        why = f"{type(failure).__name__}: {failure}"
    if why:
        why = str(metadata.get("why", why))
        error = RemoteError(
            f"Failed to create original exception type. Error msg was {printable(why)}. Original "
            f"exception on remote side was {printable(kind)}: {printable(message)}"
        )
    origin, trace = metadata.get("worker"), printable(metadata.get("traceback"))
    _note_origin(error, f"{_ORIGIN}{origin!r:.200}:\n{trace}")
    return error


def tell_origin(error: BaseException, raised: BaseException, worker_name: str) -> None:
    """Add a note to `error`: the worker on which `raised` was raised, and the traceback."""
    _note_origin(error, f"{_ORIGIN}{worker_name!r}:\n{_cut(text_of(raised, traceback_text))}")


def has_origin(error: BaseException) -> bool:
    """Return whether an error came from another worker."""
    notes = error.__dict__.get("__notes__", [])
    return isinstance(notes, list | tuple) and any(
        isinstance(note, str) and note.startswith(_ORIGIN) for note in notes
    )


def words_of(error: BaseException) -> str:
    """Return an error's type and the first line of its text, shortened to one line."""
    text = text_of(error).strip()
    first = one_line(text.splitlines()[0][:_MAX_LINE], _MAX_LINE) if text else ""
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _note_origin(error: BaseException, origin: str) -> None:
    """Add an error's origin to its notes, which users may have set to any value.

    Note    the notes are set in `__dict__`. add_note fails for classes that do not allow
            attributes, and if the present notes are not a list
    """
    attributes = error.__dict__
    notes = attributes.get("__notes__", [])
    if not isinstance(notes, list):
        notes = [*notes] if isinstance(notes, tuple) else [reprlib.repr(notes)]
    if not has_origin(error):
        attributes["__notes__"] = [*notes, origin]


def text_of(error: BaseException, write: Callable[[BaseException], str] = str) -> str:
    """Return write(error), or a text that names the failure if `write` raises."""
    try:
        return write(error)
    except BaseException as failure:  # raised by a user's __str__
        return f"(its text is not available: {type(failure).__name__})"


def _cut(text: str) -> str:
    # Encode any text, even with unpaired surrogates, so that it fits into the message.
    encoded = text.encode(errors="backslashreplace")
    if len(encoded) > _MAX_TEXT_BYTES:
        half, left_out = _MAX_TEXT_BYTES // 2, len(encoded) - _MAX_TEXT_BYTES
        middle = f"\n... {left_out} bytes left out ...\n".encode()
        encoded = encoded[:half] + middle + encoded[-half:]
    return encoded.decode(errors="replace")

"""Exceptions that cross workers: their type and state where they pickle, their text always."""

from __future__ import annotations

import reprlib
import traceback
from collections.abc import Callable

from fastdist.core.errors import RemoteError
from fastdist.core.moved_modules import own_name
from fastdist.system.foreign_text import one_line, printable

from .message import Message
from .metadata import Value
from .types import MessageType

# The first words of the note that tells where an error comes from. An error that already has such
# a note has crossed a worker before, and keeps the one it has.
_ORIGIN = "On worker "
# In the metadata of an error: the request's value was not read. See Note [Packing].
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
    """Return the response to a request, or to a greeting, that raises error where it is read.

    Note    never raises: somebody waits for this
    """
    metadata: dict[str, Value] = {
        "worker": worker_name,
        "type": ".".join(own_name(type(error))),
        "message": _cut(text_of(error)),
        "traceback": _cut(text_of(error, _format)),
    }
    response = Message(MessageType.EXCEPTION, metadata=metadata)
    if request is not None:
        response.message_id, response.peer = request.message_id, request.peer
    # SystemExit and KeyboardInterrupt are not for the caller to obey.
    if isinstance(error, Exception) and not text_only:
        try:
            response.pack(error)
            if response.tensors:
                response.body, response.tensors = b"", []
                metadata["why"] = "it holds tensors, which answers carry, but not errors"
        except BaseException as failure:  # what users' own pickling raises may be anything
            why = f"{type(failure).__name__}: {text_of(failure)}"
            metadata["why"] = _cut(f"it does not pickle there: {why}")
    elif not isinstance(error, Exception):
        metadata["why"] = "it would end its caller, which did not request that"
    return response


def unpack_error(response: Message) -> Exception:
    """Return the exception of an EXCEPTION response, ready to be raised."""
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
    """Let an error say where another was raised for which it stands: worker and traceback."""
    _note_origin(error, f"{_ORIGIN}{worker_name!r}:\n{_cut(text_of(raised, _format))}")


def has_origin(error: BaseException) -> bool:
    """Return whether an error has come from another worker."""
    notes = error.__dict__.get("__notes__", [])
    return isinstance(notes, list | tuple) and any(
        isinstance(note, str) and note.startswith(_ORIGIN) for note in notes
    )


def words_of(error: BaseException) -> str:
    """Return an error's type and the first line of its text, cut to one line."""
    text = text_of(error).strip()
    first = one_line(text.splitlines()[0][:_MAX_LINE], _MAX_LINE) if text else ""
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _note_origin(error: BaseException, origin: str) -> None:
    """Add an error's origin to its notes, which a user may have set to anything.

    Note    written where add_note writes it, which fails for classes that allow no attributes, and
            for notes that are not a list
    """
    attributes = error.__dict__
    notes = attributes.get("__notes__", [])
    if not isinstance(notes, list):
        notes = [*notes] if isinstance(notes, tuple) else [reprlib.repr(notes)]
    if not has_origin(error):
        attributes["__notes__"] = [*notes, origin]


def text_of(error: BaseException, write: Callable[[BaseException], str] = str) -> str:
    """Return an error's text as `write` has it; where a class of the user's fails in it, that."""
    try:
        return write(error)
    except BaseException as failure:  # of the user's own __str__
        return f"(its text is not available: {type(failure).__name__})"


def _format(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _cut(text: str) -> str:
    # A text of any letters, lone halves of surrogate pairs among them, must fit into the message.
    encoded = text.encode(errors="backslashreplace")
    if len(encoded) > _MAX_TEXT_BYTES:
        half, left_out = _MAX_TEXT_BYTES // 2, len(encoded) - _MAX_TEXT_BYTES
        middle = f"\n... {left_out} bytes left out ...\n".encode()
        encoded = encoded[:half] + middle + encoded[-half:]
    return encoded.decode(errors="replace")

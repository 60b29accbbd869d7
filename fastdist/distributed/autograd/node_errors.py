"""Errors of a pass over workers: as PyTorch raises them, RuntimeErrors that say where they were."""

from __future__ import annotations

from typing import Any

from ...core.errors import ContextError, GraphError
from ..rpc.message.error_parts import rebuild_error, reduce_error, set_error_state
from ..rpc.message.remote_errors import text_of
from .container import get_instance

# In the dictionary of an error, so that it travels: its text, led by the worker where it happened.
_TEXT = "_text_with_node"
_LED = "Error on Node "


def with_node_named(error: BaseException) -> BaseException:
    """Return error as one of its class and a RuntimeError, its text led by this worker, unless it
    says already where it was.

    Its `args` are those of the error, or the text where that is all that they were; its attributes
    stay. No `__init__` of a user's class runs, so it may take what it likes.
    """
    if not isinstance(error, Exception):
        return error
    if isinstance(error, RuntimeError) and text_of(error).startswith(_LED):
        return error
    # It may come from another worker. Not its text: a KeyError's is the repr of what it was given.
    given = error.args[0] if error.args else None
    is_led = isinstance(given, str) and given.startswith(_LED)
    earlier = error.__dict__.get(_TEXT, given if is_led else None)
    try:
        text = f"{_LED}{get_instance().worker_id}: {text_of(error)}" if earlier is None else earlier
    except ContextError:  # RPC has shut down during the pass, and nobody asks where it was
        return error
    try:
        named = _rebuilt(error, text)
    except Exception:  # a class that cannot be combined with others, or not subclassed
        lead, _, rest = text.partition(": ")
        named = GraphError(text if earlier else f"{lead}: {type(error).__name__}: {rest}")
    named.__cause__ = error if earlier is None else error.__cause__
    return named


def _rebuilt(error: Exception, text: str) -> Exception:
    (kind, args, parts), state = reduce_error(error)[1:3]

    def made(kind: type[Exception]) -> Any:
        named = rebuild_error(kind, args, parts)
        set_error_state(named, state)
        return named

    if not args or (len(args) == 1 and isinstance(args[0], str)):
        args = (text,)
    if issubclass(GraphError, kind):
        kind = GraphError
    named = made(kind) if issubclass(kind, RuntimeError) else None
    if named is None or str(named) != text:
        named = made(_as_runtime_error(kind))
        named.__dict__[_TEXT] = text
    return named  # type: ignore[no-any-return]


def _as_runtime_error(kind: type[Exception]) -> type[Exception]:
    """Return a subclass of RuntimeError and of kind, which is sent to workers as kind."""

    def text(error: Exception) -> str:
        return error.__dict__.get(_TEXT) or kind.__str__(error)

    def reduced(error: Exception) -> tuple[Any, ...]:
        rebuild, (_, args, parts), (attributes, slots) = reduce_error(error)[:3]
        return rebuild, (kind, args, parts), slots | attributes

    bases = (kind,) if issubclass(kind, RuntimeError) else (kind, GraphError)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, bases, names | {"__str__": text, "__reduce__": reduced})

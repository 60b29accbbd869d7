"""Errors of a distributed pass, raised as in PyTorch: RuntimeErrors that name their worker."""

from __future__ import annotations

from typing import Any

from ...core.errors import ContextError, GraphError
from ..rpc.message.error_parts import rebuild_error, reduce_error, set_error_state
from ..rpc.message.remote_errors import text_of
from .container import get_instance

# The key of an error's text, with the worker as prefix, in the error's `__dict__`, which is pickled
# with the error.
_TEXT = "_text_with_node"
_LED = "Error on Node "


def with_node_named(error: BaseException) -> BaseException:
    """Return the error as an instance of its class and of RuntimeError, with this worker as the
    prefix of its text, unless the text already names a worker.

    `args` and attributes are kept, except that a single text in `args` gets the prefix. The class's
    `__init__` is not called, so it may have any parameters.
    """
    if not isinstance(error, Exception):
        return error
    if isinstance(error, RuntimeError) and text_of(error).startswith(_LED):
        return error
    # An error from another worker may have the prefix already. This code searches for the prefix in
    # `args`, because the text of a KeyError is the repr of its argument.
    given = error.args[0] if error.args else None
    is_led = isinstance(given, str) and given.startswith(_LED)
    earlier = error.__dict__.get(_TEXT, given if is_led else None)
    try:
        text = f"{_LED}{get_instance().worker_id}: {text_of(error)}" if earlier is None else earlier
    except ContextError:  # RPC was shut down during the pass, so no worker id is known
        return error
    try:
        named = _rebuilt(error, text)
    except Exception:  # a class that cannot be subclassed, or not together with RuntimeError
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
    """Return a subclass of RuntimeError and `kind`; its instances are pickled as `kind`."""

    def text(error: Exception) -> str:
        return error.__dict__.get(_TEXT) or kind.__str__(error)

    def reduced(error: Exception) -> tuple[Any, ...]:
        rebuild, (_, args, parts), (attributes, slots) = reduce_error(error)[:3]
        return rebuild, (kind, args, parts), slots | attributes

    bases = (kind,) if issubclass(kind, RuntimeError) else (kind, GraphError)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, bases, names | {"__str__": text, "__reduce__": reduced})

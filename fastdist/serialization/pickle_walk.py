"""Walks through a pickle without building its values, to find its end and its persistent ids."""

# Note [Walking a pickle] In the format before 1.6 the data of tensors follows the pickle, and only
# the pickle has the sizes of the data. So the reader walks through the pickle before unpickling it.
# Each opcode pops from a stack and pushes on the stack, as Python's pickletools specifies. Strings,
# numbers, names and small tuples are pushed with their values; a placeholder stands for any other
# object. Each persistent id is passed to a callback. No class is looked up and no function is
# called. Loading uses the walk with and without weights_only. It takes about 1 us per opcode.

from __future__ import annotations

import functools
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any, Final, NamedTuple

from ..core.folded_frames import private_cause
from .byte_stream import ByteStream


class Named(NamedTuple):
    """A class or function that a pickle refers to."""

    module: str
    name: str


# Longer tuples become placeholders: a persistent id has at most six items.
_MOST_PARTS: Final = 6
_TUPLES: Final = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUTS: Final = frozenset(("PUT", "BINPUT", "LONG_BINPUT"))
_GETS: Final = frozenset(("GET", "BINGET", "LONG_BINGET"))
_MARK: Final = object()
_UNKNOWN: Final = object()


def walk(stream: ByteStream, note: Callable[[Any], None]) -> bytes:
    """Return the bytes of the next pickle, and move the stream to the end of the pickle. Pass each
    persistent id in the pickle to `note`.

    Raises  UnpicklingError for bytes that are not a pickle; errors of `note`
    """
    start = stream.at
    try:
        _Walk(note).run(stream)
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise UnpicklingError(
            f"the pickle at byte {start} is damaged, or cut off: {str(error)[:200]}"
        ) from private_cause(error)
    end, stream.at = stream.at, start
    return stream.read(end - start)


def skip(stream: ByteStream) -> bytes:
    """Return the bytes of the next pickle, which must not have persistent ids.

    Raises  UnpicklingError for bytes that are not such a pickle
    """

    def refuse(_: Any) -> None:
        raise UnpicklingError("a persistent id where there can be none")

    return walk(stream, refuse)


@functools.cache
def _opcodes() -> dict[bytes, Any]:
    # Imported here: the import takes 3 ms, and files in the current format do not need it.
    import pickletools

    return {one.code.encode("latin-1"): one for one in pickletools.opcodes}


class _Walk:
    """The stack and the memo of one pickle. See Note [Walking a pickle]."""

    def __init__(self, note: Callable[[Any], None]) -> None:
        self._note = note
        self._stack: list[Any] = []
        self._memo: dict[Any, Any] = {}

    def run(self, stream: ByteStream) -> None:
        known = _opcodes()
        while True:
            opcode = known.get(stream.read(1))
            if opcode is None:
                raise UnpicklingError(f"there is no opcode at byte {stream.at - 1}")
            if opcode.name == "STOP":
                return
            if opcode.name == "STRING":
                # The reader in pickletools would issue warnings for invalid escapes.
                argument: Any = stream.readline()[1:-2].decode("latin-1")
            else:
                argument = None if opcode.arg is None else opcode.arg.reader(stream)
            self._step(opcode, argument)

    def _step(self, opcode: Any, argument: Any) -> None:
        name, stack = opcode.name, self._stack
        if name in _PUTS:
            self._memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in _GETS:
            stack.append(self._memo[argument])
        elif name == "BINPERSID":
            self._note(stack.pop())
            stack.append(_UNKNOWN)
        elif name == "PERSID":
            self._note(argument)
            stack.append(_UNKNOWN)
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "NONE":
            stack.append(None)
        elif name == "TUPLE":
            stack.append(_few(self._pop_to_mark()))
        elif name in _TUPLES:
            count = _TUPLES[name]
            if count > len(stack):
                raise IndexError("a tuple of more than there is")
            items = stack[len(stack) - count :]
            del stack[len(stack) - count :]
            stack.append(tuple(items))
        elif name == "STACK_GLOBAL":
            word, module = stack.pop(), stack.pop()
            stack.append(Named(str(module), str(word)) if isinstance(word, str) else _UNKNOWN)
        elif name == "GLOBAL":
            stack.append(Named(*argument.split(" ", 1)))
        elif name == "DUP":
            stack.append(stack[-1])
        else:
            self._step_by_counts(opcode, argument)

    def _step_by_counts(self, opcode: Any, argument: Any) -> None:
        before, after = opcode.stack_before, opcode.stack_after
        names = [one.name for one in before]
        if "mark" in names:
            self._pop_to_mark()
            names = names[: names.index("mark")]
        if len(names) > len(self._stack):
            raise IndexError(f"{opcode.name} takes more than there is")
        del self._stack[len(self._stack) - len(names) :]
        # An opcode that only pushes a number, a string or bytes pushes that value. Any other opcode
        # pushes placeholders.
        value = _UNKNOWN if before or argument is None else argument
        self._stack.extend([value] * len(after))

    def _pop_to_mark(self) -> list[Any]:
        items = []
        while (item := self._stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]


def _few(items: list[Any]) -> Any:
    return tuple(items) if len(items) <= _MOST_PARTS else _UNKNOWN

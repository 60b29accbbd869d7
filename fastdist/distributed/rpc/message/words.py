"""What stands in a message's metadata, taken as what it should be: others have written it."""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar, get_type_hints

from fastdist.core.errors import MessageError

from .message import Message
from .metadata import Value

Words = Mapping[str, Value]
T = TypeVar("T")
N = TypeVar("N", bound=tuple[Any, ...])


def _one(kind: type[T], expected: str) -> Callable[[Words, str, int], T]:
    def take(words: Words, name: str, sender: int) -> T:
        value = words.get(name)
        if type(value) is not kind:
            refuse(words, name, sender, expected)
        return value

    return take


def _many(kind: type[T], expected: str) -> Callable[[Words, str, int], tuple[T, ...]]:
    wanted = {kind}

    def take(words: Words, name: str, sender: int) -> tuple[T, ...]:
        values = words.get(name)
        if not isinstance(values, tuple) or not wanted.issuperset(map(type, values)):
            refuse(words, name, sender, expected)
        return values  # type: ignore[return-value]

    return take


# Each returns what stands under a name in what worker `sender` wrote; MessageError if it is none.
number, flag, text = _one(int, "a number"), _one(bool, "True or False"), _one(str, "a text")
numbers, texts = _many(int, "a list of numbers"), _many(str, "a list of texts")


def filled(kind: type[N], words: Words, sender: int) -> N:
    """Return a NamedTuple of what stands under the names of its fields."""
    return kind(*[read(words, name, sender) for name, read in _readers_of(kind)])


_READERS: dict[Any, Callable[[Words, str, int], Any]] = {
    int: number,
    bool: flag,
    str: text,
    tuple[int, ...]: numbers,
    tuple[str, ...]: texts,
}


# To look hints up costs as much as a small message.
@functools.cache
def _readers_of(kind: type[Any]) -> list[tuple[str, Callable[[Words, str, int], Any]]]:
    return [(name, _READERS[hint]) for name, hint in get_type_hints(kind).items()]


def ids_of(request: Message) -> tuple[int, int]:
    """Return the ids of the reference, and of the fork of it, that a request is about."""
    words, sender = request.metadata, request.peer.id
    return number(words, "rref", sender), number(words, "fork", sender)


def lists_of(request: Message, *names: str) -> list[tuple[int, ...]]:
    """Return the lists of ids in a request that tells several notes together."""
    return [numbers(request.metadata, name, request.peer.id) for name in names]


def refuse(words: Words, name: str, sender: int, expected: str) -> NoReturn:
    """Say what was expected of a word, and what came."""
    given = reprlib.repr(words[name]) if name in words else "no such word"
    raise MessageError(f"metadata: {name!r} of worker {sender} is {given}, expected {expected}")

"""What stands in a message's metadata, taken as what it should be: others have written it."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import NoReturn

from fastdist.core.errors import MessageError

from .message import Message
from .metadata import Value

Words = Mapping[str, Value]


def number(words: Words, name: str, sender: int) -> int:
    """Return the number of this name in what worker `sender` wrote.

    Raises  MessageError if there is none, as all below
    """
    value = words.get(name)
    if type(value) is not int:
        refuse(words, name, sender, "a number")
    return value


def flag(words: Words, name: str, sender: int) -> bool:
    """Return whether the word of this name is true."""
    value = words.get(name)
    if not isinstance(value, bool):
        refuse(words, name, sender, "True or False")
    return value


def text(words: Words, name: str, sender: int) -> str:
    """Return the text of this name."""
    value = words.get(name)
    if not isinstance(value, str):
        refuse(words, name, sender, "a text")
    return value


def numbers(words: Words, name: str, sender: int) -> tuple[int, ...]:
    """Return the numbers of this name, such as ids."""
    values = words.get(name)
    if not isinstance(values, tuple) or not all(type(value) is int for value in values):
        refuse(words, name, sender, "a list of numbers")
    return values  # type: ignore[return-value]


def texts(words: Words, name: str, sender: int) -> tuple[str, ...]:
    """Return the texts of this name."""
    values = words.get(name)
    if not isinstance(values, tuple) or not all(isinstance(value, str) for value in values):
        refuse(words, name, sender, "a list of texts")
    return values  # type: ignore[return-value]


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

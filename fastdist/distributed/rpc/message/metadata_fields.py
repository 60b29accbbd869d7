"""Checked access to fields of a message's metadata, which another worker wrote."""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar, get_type_hints

from fastdist.core.errors import MessageError

from .message import Message
from .metadata import Value

Metadata = Mapping[str, Value]
T = TypeVar("T")
N = TypeVar("N", bound=tuple[Any, ...])


def _one(kind: type[T], expected: str) -> Callable[[Metadata, str, int], T]:
    def take(metadata: Metadata, name: str, sender: int) -> T:
        value = metadata.get(name)
        if type(value) is not kind:
            refuse(metadata, name, sender, expected)
        return value

    return take


def _many(kind: type[T], expected: str) -> Callable[[Metadata, str, int], tuple[T, ...]]:
    wanted = {kind}

    def take(metadata: Metadata, name: str, sender: int) -> tuple[T, ...]:
        values = metadata.get(name)
        if not isinstance(values, tuple) or not wanted.issuperset(map(type, values)):
            refuse(metadata, name, sender, expected)
        return values  # type: ignore[return-value]

    return take


# Each function (metadata, name, sender) returns the field `name` of the metadata that the worker
# `sender` wrote, and raises MessageError for a wrong type.
number, flag, text = _one(int, "a number"), _one(bool, "True or False"), _one(str, "a text")
numbers, texts = _many(int, "a list of numbers"), _many(str, "a list of texts")


def filled(kind: type[N], metadata: Metadata, sender: int) -> N:
    """Return a NamedTuple whose fields are the metadata entries of the same names."""
    return kind(*[read(metadata, name, sender) for name, read, _ in _readers_of(kind)])


def filled_with_defaults(kind: type[N], metadata: Metadata, sender: int) -> N:
    """Return the NamedTuple that `metadata_of` encoded. Missing fields get their default values."""
    given = {
        name: read(metadata, name, sender)
        for name, read, has_default in _readers_of(kind)
        if name in metadata or not has_default
    }
    return kind(**given)


def metadata_of(fields: Any) -> dict[str, Value]:
    """Return the metadata of a NamedTuple for `filled_with_defaults`.

    Fields that equal their defaults are left out.
    """
    defaults = fields._field_defaults
    given = zip(fields._fields, fields)
    return {name: value for name, value in given if value != defaults.get(name, _NO_DEFAULT)}


_NO_DEFAULT = object()


_READERS: dict[Any, Callable[[Metadata, str, int], Any]] = {
    int: number,
    bool: flag,
    str: text,
    tuple[int, ...]: numbers,
    tuple[str, ...]: texts,
}


# Cached, as resolving type hints costs as much as sending a small message.
@functools.cache
def _readers_of(kind: type[Any]) -> list[tuple[str, Callable[[Metadata, str, int], Any], bool]]:
    hints, defaults = get_type_hints(kind), kind._field_defaults
    return [(name, _READERS[hint], name in defaults) for name, hint in hints.items()]


def ids_of(request: Message) -> tuple[int, int]:
    """Return the ids of the value and the fork from the metadata of a request."""
    metadata, sender = request.metadata, request.peer.id
    return number(metadata, "rref", sender), number(metadata, "fork", sender)


def lists_of(request: Message, *names: str) -> list[tuple[int, ...]]:
    """Return the lists of ids with these names from a request that contains several notices."""
    return [numbers(request.metadata, name, request.peer.id) for name in names]


def refuse(metadata: Metadata, name: str, sender: int, expected: str) -> NoReturn:
    """Raise the error for an invalid field, with the expected type and the actual value."""
    given = reprlib.repr(metadata[name]) if name in metadata else "missing"
    raise MessageError(f"metadata: {name!r} of worker {sender} is {given}, expected {expected}")

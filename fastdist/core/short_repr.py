"""A repr for error messages that is short, takes bounded time and never raises."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from itertools import islice
from types import MethodType
from typing import Any, Final

import numpy as np

# Values with at most this many parts and characters are shown in full.
_MOST_PARTS: Final = 100
_MOST_CHARACTERS: Final = 1000
# Larger values show this many items per container, nesting levels and characters per leaf.
_ITEMS: Final = 4
_LEVELS: Final = 3
_CHARACTERS: Final = 60

_BRACKETS: Final[dict[Any, tuple[str, str]]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    dict: ("{", "}"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    deque: ("deque([", "])"),
}
# Classes whose repr reads no other values. Instances of other classes written in C, such as
# itertools.repeat, are shown by name only.
_LEAVES: Final = (int, float, complex, str, bytes, bytearray, range, type(None), type(...), type)


def short_repr(value: Any) -> str:
    """Return repr(value), abridged if it is long or deeply nested, or a substitute if it raises.

    The time is bounded even for lists with shared parts or cycles, for a million items, and for
    huge strings and integers.
    """
    try:
        if _is_small(value):
            return _cut(repr(value), _MOST_CHARACTERS)
        return _abridged(value, _LEVELS)
    except Exception:
        # The repr of a user's class may raise anything.
        return object.__repr__(value)


def short_text(value: Any) -> str:
    """Return str(value) for a short string, and short_repr(value) for any other value."""
    return value if isinstance(value, str) and len(value) <= _CHARACTERS else short_repr(value)


def _is_small(value: Any) -> bool:
    parts, characters = 0, 0
    waiting = [value]
    while waiting:
        one = waiting.pop()
        parts += 1
        characters += _length(one)
        if parts + len(waiting) > _MOST_PARTS or characters > _MOST_CHARACTERS:
            return False
        held = _held(one)
        if held is None:
            if not _has_safe_repr(one):
                return False
        else:
            waiting.extend(islice(held, _MOST_PARTS + 1))
    return True


def _length(value: Any) -> int:
    """Return the approximate number of characters of a value, without its items."""
    if isinstance(value, int):
        return value.bit_length() // 3
    return len(value) if isinstance(value, str | bytes | bytearray) else 2


def _held(value: Any) -> Iterable[Any] | None:
    """Return the values that the repr of a value includes; None if it includes none."""
    if isinstance(value, dict):
        return (one for item in dict.items(value) for one in item)
    for kind in _BRACKETS:
        # The built-in class's `__iter__` is called, because that of a subclass may never end.
        if isinstance(value, kind):
            held: Iterable[Any] = kind.__iter__(value)
            return held
    if isinstance(value, slice):
        return (value.start, value.stop, value.step)
    if isinstance(value, MethodType):
        return (value.__self__,)
    if isinstance(value, partial):
        return (value.func, *value.args, *value.keywords.values())
    if hasattr(type(value), "__dataclass_fields__"):
        import dataclasses  # imported here, because `import fastdist` does not need it

        return [getattr(value, field.name) for field in dataclasses.fields(value) if field.repr]
    return None


def _has_safe_repr(value: Any) -> bool:
    """Return whether a value's `__repr__` takes bounded time, or is written in Python."""
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind not in "OV"
    kind = type(value)
    own: Any = kind.__repr__
    if own is object.__repr__ or hasattr(own, "__code__") or issubclass(kind, _LEAVES):
        return True
    return kind.__name__ in _NAMED_LEAVES


_NAMED_LEAVES: Final = frozenset(
    {
        "Decimal",
        "NotImplementedType",
        "builtin_function_or_method",
        "code",
        "function",
        "memoryview",
        "method-wrapper",
        "method_descriptor",
        "module",
        "wrapper_descriptor",
    }
)


def _abridged(value: Any, levels: int) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return _abridged_integer(value)
    for kind, (left, right) in _BRACKETS.items():
        if isinstance(value, kind):
            length = kind.__len__(value)
            if levels == 0 and length:
                return f"{left}...{right}"
            held = dict.items(value) if kind is dict else kind.__iter__(value)
            shown = [_item(one, levels - 1, kind is dict) for one in islice(held, _ITEMS)]
            if (left_out := length - len(shown)) > 0:
                shown.append(f"... ({left_out} more)")
            comma = "," if kind is tuple and len(shown) == 1 else ""
            return f"{left}{', '.join(shown)}{comma}{right}"
    if isinstance(value, str | bytes | bytearray):
        return _abridged_text(value)
    if isinstance(value, slice):
        ends = (value.start, value.stop, value.step)
        return f"slice({', '.join([_abridged(one, levels - 1) for one in ends])})"
    if _held(value) is None and _has_safe_repr(value):
        return _cut(repr(value), _CHARACTERS)
    return f"<{type(value).__name__} object>"


def _item(item: Any, levels: int, is_pair: bool) -> str:
    if is_pair:
        return f"{_abridged(item[0], levels)}: {_abridged(item[1], levels)}"
    return _abridged(item, levels)


def _abridged_text(value: Any) -> str:
    if len(value) <= _CHARACTERS:
        return repr(value)
    return f"{value[:_CHARACTERS]!r}... ({len(value)} long)"


def _abridged_integer(value: int) -> str:
    if value.bit_length() <= 3 * _CHARACTERS:
        return repr(value)
    sign = "-" if value < 0 else ""
    return f"{sign}{hex(abs(value) >> value.bit_length() - 32)}... ({value.bit_length()} bits)"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."

"""Finding the part of a value that makes pickling fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple


class Culprit(NamedTuple):
    """The innermost part that cannot be pickled; its path, such as `args[1]['x']`; the error."""

    path: str
    value: object
    error: Exception


def find_unpicklable(
    value: object, name: str, dump: Callable[[Any], object], error: Exception
) -> Culprit:
    """Return the innermost part of `value` on which `dump` fails. `dump(value)` itself has failed
    with `error`.

    Each part is pickled separately, so inner data is pickled again at each level: call this only to
    compose an error message. If pickling fails because `value` is nested too deeply, the result is
    `value` itself, because the recursion limit alone determines at which part pickling fails.
    """
    found, levels = Culprit(name, value, error), 0
    # A value may contain itself, so each object is visited once.
    seen = {id(value)}
    while not isinstance(found.error, RecursionError):
        inner = next(_failing_parts(found, dump, seen), None)
        if inner is None:
            break
        found, levels = inner, levels + 1
        seen.add(id(inner.value))
    return found._replace(path=_shortened(found.path, levels))


# A path of more than three times this many characters is shortened: this many characters of its
# beginning and of its end remain.
_SHOWN = 60


def _shortened(path: str, levels: int) -> str:
    if len(path) <= 3 * _SHOWN:
        return path
    return f"{path[:_SHOWN]} ... {path[-_SHOWN:]}, {levels:,} levels down"


def _failing_parts(
    outer: Culprit, dump: Callable[[Any], object], seen: set[int]
) -> Iterator[Culprit]:
    for path, part in _parts(outer.path, outer.value):
        if id(part) in seen:
            continue
        try:
            dump(part)
        except Exception as error:  # any exception means that this part cannot be pickled
            yield Culprit(path, part, error)


def _parts(path: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield f"a key of {path}", key
            yield f"{path}[{key!r}]", item
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield f"{path}[{index}]", item
    elif isinstance(value, (set, frozenset)):
        for item in value:
            yield f"an element of {path}", item
    elif not isinstance(value, type) and not callable(value):
        for attribute, item in vars(value).items() if hasattr(value, "__dict__") else ():
            yield f"{path}.{attribute}", item

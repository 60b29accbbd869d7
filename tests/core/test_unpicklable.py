"""An error about an unpicklable value names the path to the part that cannot be pickled."""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.core.unpicklable import Culprit, find_unpicklable

_LOCK = threading.Lock()


class Locked:
    """An object with an attribute that cannot be pickled."""

    def __init__(self) -> None:
        self.fine = 1
        self.lock = _LOCK


def _find(value: object) -> Culprit:
    with pytest.raises(Exception) as error:  # noqa: PT011 (pickle raises many kinds)
        pickle.dumps(value)
    return find_unpicklable(value, "args", pickle.dumps, error.value)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (_LOCK, "args"),
        ((1, _LOCK), "args[1]"),
        ((1, {"x": [2, _LOCK]}), "args[1]['x'][1]"),
        ({_LOCK: 1}, "a key of args"),
        ([{_LOCK}], "an element of args[0]"),
        (OrderedDict(a=SimpleNamespace(b=_LOCK)), "args['a'].b"),
        ([Locked()], "args[0].lock"),
    ],
)
def test_the_innermost_part_is_found(value: object, path: str) -> None:
    found = _find(value)
    assert found.path == path
    assert found.value is _LOCK
    assert "cannot pickle '_thread.lock' object" in str(found.error)


def test_a_value_that_contains_itself_comes_to_an_end() -> None:
    value: list[Any] = [_LOCK]
    value.append(value)
    assert _find(value).path == "args[0]"
    value.reverse()
    assert _find(value).path == "args[1]"


def test_a_long_way_is_told_by_its_ends() -> None:
    value: list[Any] = [_LOCK]
    for _ in range(200):
        value = [value]
    found = _find(value)
    assert found.value is _LOCK
    assert found.path.startswith("args[0][0][0]") and " ... " in found.path
    assert found.path.endswith("[0][0], 201 levels down") and len(found.path) < 160


def test_what_is_nested_too_deeply_is_itself_to_blame() -> None:
    value: list[Any] = [_LOCK]
    for _ in range(50_000):
        value = [value]
    found = _find((1, value))
    assert found.path == "args" and isinstance(found.error, RecursionError)


def test_a_class_is_not_looked_into() -> None:
    class Local:
        lock = _LOCK

    assert _find((Local,)).path == "args[0]"

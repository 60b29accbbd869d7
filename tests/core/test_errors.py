"""Errors survive copies and pickles, also with tblib's reducers; no error is its own cause."""

from __future__ import annotations

import copy
import copyreg
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import fastdist as fd
from fastdist.core import errors
from fastdist.core.errors import (
    FastdistError,
    GivenUpError,
    OutOfMemoryError,
    StoreTimeoutError,
    WorkerFailedError,
    WorkerLostError,
    raise_out_of_memory,
)
from tests.properties import Properties


def all_below(kind: type[FastdistError]) -> Iterator[type[FastdistError]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from all_below(below)


def samples() -> Iterator[FastdistError]:
    """Yield an error of each class, and some with attributes that differ from the defaults."""
    for kind in dict.fromkeys(all_below(FastdistError)):
        yield WorkerFailedError("x", 3) if kind is WorkerFailedError else kind("what happened")
    yield WorkerLostError("gone", may_have_run=False)
    yield StoreTimeoutError("late", ["rank 1"])
    yield GivenUpError("given up", incarnation=7)
    noted = WorkerLostError("gone")
    noted.add_note("a note")
    yield noted


def contents(error: BaseException) -> tuple[Any, ...]:
    return type(error), str(error), error.args, error.__dict__


# ---- the reducers that tblib 3.2 registers for classes of exceptions -----------------------------


def rebuild_by_new(kind: Any, attributes: dict[str, Any]) -> Any:
    made = kind.__new__(kind)
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def rebuild_by_call(kind: Any, args: tuple[Any, ...]) -> Any:
    return kind(*args)


def reduce_like_tblib(error: BaseException) -> tuple[Any, ...]:
    reduced: Any = error.__reduce__()
    kind: Any = type(error)
    builtin = (BaseException, OSError)
    has_default = kind.__reduce__ in [one.__reduce__ for one in builtin]
    if has_default and kind.__init__ not in [one.__init__ for one in builtin]:
        attributes = {"__dict__": error.__dict__, "args": error.args}
        return rebuild_by_new, (kind, attributes), *reduced[2:]
    return rebuild_by_call, reduced[:2], *reduced[2:]


@pytest.fixture
def as_with_tblib(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in samples():
        monkeypatch.setitem(copyreg.dispatch_table, type(error), reduce_like_tblib)


def require_that_errors_survive(properties: Properties) -> None:
    for error in samples():
        with properties(type(error).__name__):
            assert contents(copy.copy(error)) == contents(error)
            for protocol in (2, pickle.HIGHEST_PROTOCOL):
                assert contents(pickle.loads(pickle.dumps(error, protocol))) == contents(error)


def test_errors_survive_copies_and_pickles(properties: Properties) -> None:
    require_that_errors_survive(properties)


@pytest.mark.usefixtures("as_with_tblib")
def test_errors_survive_where_tblib_has_replaced_how_exceptions_pickle(
    properties: Properties,
) -> None:
    require_that_errors_survive(properties)


@pytest.mark.usefixtures("as_with_tblib")
def test_a_copy_has_no_traceback_of_the_first_raise() -> None:
    with pytest.raises(WorkerLostError) as raised:
        raise WorkerLostError("gone")
    assert raised.value.__traceback__ and copy.copy(raised.value).__traceback__ is None


# ---- causes -------------------------------------------------------------------------------------


def causes_of(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in found:
        found.append(following)
        following = following.__cause__
    assert following is None, f"{following!r} is among its own causes"
    return found


def test_an_error_for_lack_of_memory_is_never_its_own_cause() -> None:
    lack = MemoryError("Unable to allocate")
    with pytest.raises(OutOfMemoryError) as first:
        raise_out_of_memory(lack)
    assert causes_of(first.value) == [first.value, lack]
    with pytest.raises(OutOfMemoryError) as second:
        raise_out_of_memory(first.value)
    assert second.value is first.value and causes_of(first.value) == [first.value, lack]


def test_an_error_that_passes_through_several_places_is_not_its_own_cause() -> None:
    class OfTheProgram(fd.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return fd.ones(1).expand(1 << 45) + grad

    x = fd.ones(1, requires_grad=True)
    for call in (
        lambda: OfTheProgram.apply(x).sum().backward(),
        lambda: fd.ones(1).expand(1 << 45) + 1,
        lambda: fd.empty(1 << 45),
    ):
        with pytest.raises(OutOfMemoryError) as raised:
            call()
        assert causes_of(raised.value)

"""The caller gets the error that the function raised."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest

from fastdist.core.errors import MessageError, RemoteError, RpcTimeoutError, WorkerLostError
from fastdist.distributed.rpc.calls.serving import Incoming
from fastdist.distributed.rpc.message import gate
from fastdist.distributed.rpc.message.error_parts import (
    rebuild_error,
    says_how_it_pickles,
    set_error_state,
)
from fastdist.distributed.rpc.message.message import Message, decode
from fastdist.distributed.rpc.message.metadata import decode_metadata, encode_metadata
from fastdist.distributed.rpc.message.remote_errors import pack_error, unpack_error
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.distributed.rpc.metrics import CallCounts
from fastdist.distributed.rpc.references.rref import copy_of
from fastdist.distributed.rpc.workers.callers import CallerLane
from fastdist.distributed.rpc.workers.record import Record
from tests.distributed.rpc.workers.by_hand import caller_of


class BadText(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class BadReduce(Exception):
    def __reduce__(self) -> Any:
        raise ZeroDivisionError("cannot be reduced")


class WorseReduce(Exception):
    def __reduce__(self) -> Any:
        raise SystemExit(3)


class OfTwo(Exception):
    def __init__(self, a: int, b: str) -> None:
        super().__init__(f"{a} {b}")
        self.a = a
        self.b = b


class OfKeywords(ValueError):
    def __init__(self, *, where: str) -> None:
        super().__init__(f"at {where}")
        self.where = where


class InSlots(Exception):
    __slots__ = ("__hidden", "place")

    def __init__(self, place: str, hidden: int) -> None:
        self.place = place
        self.__hidden = hidden

    def told(self) -> tuple[str, int]:
        return self.place, self.__hidden


class OwnNew(Exception):
    def __new__(cls, *, size: int) -> OwnNew:
        return super().__new__(cls, size)

    def __init__(self, *, size: int) -> None:
        self.size = size


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int
    why: str


class OwnWay(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__("own")
        self.sum = a + b

    def __reduce__(self) -> Any:
        return OwnWay, (self.sum, 0)


class OfSystem(OSError):
    def __init__(self, code: int, path: str, tries: int) -> None:
        super().__init__(code, "no such thing", path)
        self.tries = tries


class AboutItself(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.parts = [a, b, self]


class OfBytes(UnicodeDecodeError):
    def __init__(self, line: int, *rest: Any) -> None:
        super().__init__(*rest)
        self.line = line


class Grouped(ExceptionGroup[Exception]):
    level: int

    def __new__(cls, errors: list[Exception], level: int) -> Grouped:
        made = super().__new__(cls, f"{len(errors)} of them", errors)
        made.level = level
        return made


ERRORS: list[tuple[Exception, str]] = [
    (OfTwo(1, "b"), "a b args"),
    (OfKeywords(where="x"), "where args"),
    (InSlots("here", 7), "place args"),
    (OwnNew(size=3), "size args"),
    (Frozen(4, "y"), "code why args"),
    (OwnWay(1, 2), "sum args"),
    (OfSystem(2, "/tmp/f", 3), "errno strerror filename tries args"),
    (OSError(13, "no", "a", None, "b"), "errno strerror filename filename2 args"),
    (BlockingIOError(11, "later", 5), "errno strerror characters_written args"),
    (UnicodeDecodeError("utf-8", b"abc", 1, 2, "why"), "encoding object start end reason args"),
    (UnicodeEncodeError("ascii", "a\xfc", 1, 2, "why"), "encoding object start end reason args"),
    (OfBytes(9, "utf-8", b"abc", 1, 2, "why"), "line object start end args"),
    (SyntaxError("bad", ("f.py", 1, 2, "x = (", 1, 4)), "msg filename lineno offset text args"),
    (ImportError("no", name="mod", path="/p"), "msg name path args"),
    (AttributeError("no", name="x"), "name args"),
    (NameError("no", name="x"), "name args"),
    (StopIteration(5), "value args"),
    (KeyError(("k", 1)), "args"),
    (MemoryError(), "args"),
    (WorkerLostError("of two builtin classes"), "args"),
    (RpcTimeoutError(2, "of two"), "errno strerror args"),
    (RecursionError("deep"), "args"),
    (json.JSONDecodeError("bad", "{]", 1), "msg doc pos lineno colno args"),
]


@pytest.fixture(params=[gate.OPEN, gate.STRICT])
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    gate.set_mode(request.param)
    yield request.param
    gate.set_mode(gate.OPEN)


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("error", "names"), ERRORS, ids=lambda value: type(value).__name__)
def test_an_error_arrives_as_itself_with_its_attributes(
    mode: str, error: Exception, names: str
) -> None:
    error.__dict__["__notes__"] = ["one of its own"]
    for arrived in (across(error), copy_of(error)):
        assert type(arrived) is type(error) and str(arrived) == str(error)
        for name in names.split():
            assert getattr(arrived, name) == getattr(error, name), name
        # A class that controls its pickling also controls whether notes are sent.
        assert says_how_it_pickles(type(error)) or arrived.__notes__[0] == "one of its own"
    if isinstance(error, InSlots):
        arrived = across(error)
        assert isinstance(arrived, InSlots) and arrived.told() == ("here", 7)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("error", "names"), ERRORS, ids=lambda value: type(value).__name__)
def test_an_error_that_is_raised_for_who_waits_leaves_nothing_in_the_one_that_is_kept(
    error: Exception, names: str
) -> None:
    with pytest.raises(type(error)):
        raise copy_of(error)
    # The stored error would otherwise keep all readers' frames alive as long as references exist.
    assert error.__traceback__ is None


def test_a_group_of_errors_arrives_with_all_of_them_as_themselves(mode: str) -> None:
    for sent in (ExceptionGroup("all", [OfTwo(1, "x"), OfKeywords(where="y")]),
                 Grouped([OfTwo(1, "x"), OfKeywords(where="y")], 5)):  # fmt: skip
        arrived = across(sent)
        assert type(arrived) is type(sent) and arrived.message == sent.message  # type: ignore[attr-defined]
        assert isinstance(arrived, ExceptionGroup)
        first, second = arrived.exceptions
        assert isinstance(first, OfTwo) and first.b == "x"
        assert isinstance(second, OfKeywords) and second.where == "y"
        assert getattr(arrived, "level", 5) == 5 and isinstance(arrived.args[1], list)


def test_an_error_that_holds_itself_arrives_holding_itself(mode: str) -> None:
    arrived = across(AboutItself(1, 2))
    assert isinstance(arrived, AboutItself) and arrived.parts == [1, 2, arrived]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("notes", [5, "text", None, ("a", "b"), [1, None], {"x": 1}, [], ["a"]])
def test_an_error_whose_notes_are_no_list_of_texts_arrives_as_itself(mode: str, notes: Any) -> None:
    error = OfTwo(1, "b")
    error.__notes__ = notes
    arrived = across(error)
    assert isinstance(arrived, OfTwo) and (arrived.a, arrived.b) == (1, "b")
    kept = notes if isinstance(notes, (list, tuple)) else [repr(notes)]
    assert arrived.__notes__[:-1] == [*kept]
    assert arrived.__notes__[-1].startswith("On worker 'w1'")


class Told:
    """A part of an error that records when it is read."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __reduce__(self) -> Any:
        for number in range(100):
            self.error.__dict__[f"looked {number}"] = True
        return complex, (1.0, 2.0)


def test_an_error_that_changes_while_it_is_taken_apart_arrives_as_itself(mode: str) -> None:
    error = OfTwo(1, "b")
    error.__dict__.update(first=Told(error), second=2)
    arrived: Any = across(error)
    assert isinstance(arrived, OfTwo) and (arrived.first, arrived.second) == (1 + 2j, 2)


def test_a_local_class_of_errors_arrives_as_text_and_says_why(mode: str) -> None:
    class Local(Exception):
        pass

    arrived = across(Local("lost"))
    assert type(arrived) is RemoteError and "lost" in str(arrived)
    assert "does not pickle there" in str(arrived)
    assert str(arrived).startswith("Failed to create original exception type. Error msg was ")
    assert "Original exception on remote side was " in str(arrived)


def test_an_error_that_ends_a_program_does_not_end_its_caller(mode: str) -> None:
    arrived = across(SystemExit(3))
    assert type(arrived) is RemoteError and "it would end its caller" in str(arrived)


def test_no_init_of_a_class_of_errors_runs_for_a_sender(mode: str) -> None:
    error = OfTwo(1, "b")
    error.args = ("anything", 2, 3)
    assert across(error).args == ("anything", 2, 3)


@pytest.mark.parametrize(
    "parts",
    [
        (int, (), {}),
        ("ValueError", (), {}),
        (ValueError, [], {}),
        (ValueError, (), []),
        (UnicodeDecodeError, ("u", b"x", -5, -4, "r"), {}),
        (UnicodeDecodeError, ("u", b"x", 0, 10**18, "r"), {}),
        (UnicodeEncodeError, ("u", "x", 3, 4, "r"), {}),
        (UnicodeTranslateError, ("x", -5, -4, "r"), {}),
        (SyntaxError, ("x", range(10**12)), {}),
        (SyntaxError, ("x", ("f", 1, 1, "x", 1, 10**12)), {}),
        (ExceptionGroup, ("x", range(10**12)), {}),
        (ExceptionGroup, ("x", (1,)), {}),
        (ExceptionGroup, ("x",), {}),
    ],
)
def test_parts_that_make_no_error_are_refused(parts: tuple[Any, Any, Any]) -> None:
    with pytest.raises(MessageError):
        rebuild_error(*parts)


@pytest.mark.parametrize("state", [({1: 2}, {}), ({}, {"start": -(10**12)}), ({}, {"args": ()})])
def test_a_state_that_no_error_of_the_class_has_is_refused(state: Any) -> None:
    with pytest.raises(MessageError, match="a state that no"):
        set_error_state(UnicodeDecodeError("u", b"x", 0, 1, "r"), state)


def across(error: BaseException, *, text_only: bool = False) -> Exception:
    sent = pack_error(error, "w1", text_only=text_only)
    sent.metadata = decode_metadata(encode_metadata(sent.metadata))
    return unpack_error(sent)


def test_an_error_without_a_text_arrives_with_its_type() -> None:
    assert type(across(BadText())) is BadText


def test_an_error_that_cannot_be_pickled_arrives_as_text_and_says_why() -> None:
    for error, why in ((BadReduce("one"), "ZeroDivisionError"), (WorseReduce("two"), "SystemExit")):
        arrived = across(error)
        assert type(arrived) is RemoteError
        assert str(error) in str(arrived) and f"does not pickle there: {why}" in str(arrived)


@pytest.mark.parametrize("text", ["\udcff alone", "\U0001f600" * 300_000, "x" * 1_000_000])
def test_a_text_of_any_letters_and_length_fits(text: str) -> None:
    arrived = across(KeyError(text), text_only=True)
    assert type(arrived) is RemoteError
    assert text[:2].encode(errors="backslashreplace").decode() in str(arrived)
    assert "On worker" in arrived.__notes__[0]


class Host:
    """A server that cannot send messages with an error's pickled bytes."""

    def __init__(self) -> None:
        self.me = Record("w1", 1, 2, 1, {}, {}, "none")
        self.counts = CallCounts()
        self.sent: list[Message] = []

    def reply(self, route: bytes, frames: Any) -> bool:
        message = decode(frames)
        if message.body:
            raise MessageError("a frame of too many bytes")
        self.sent.append(message)
        return True

    def map_back(self, rank: int) -> dict[Any, Any]:
        return {}

    def lender_of(self, caller: Record) -> None:
        return None


def test_an_error_that_is_too_large_to_be_sent_is_told_of() -> None:
    host = Host()
    lane = CallerLane(caller_of(Record("w0", 0, 2, 1, {}, {}, "none")), 0)
    incoming = Incoming(host, lane, Message(MessageType.PYTHON_CALL, 7), 0)
    host.counts.request_came()
    incoming._answer_error(KeyError("large"))
    (answer,) = host.sent
    assert answer.type == MessageType.EXCEPTION and answer.message_id == 7
    assert answer.metadata is not None and "too many bytes" in str(answer.metadata["message"])
    assert "KeyError" in str(answer.metadata["traceback"])
    assert host.counts.activity()[0] == 0

"""Calls are sent as function names, and tensors without a pickle; the gate checks the names."""

from __future__ import annotations

import operator
import os.path
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import fastdist.graph.tensor_methods  # noqa: F401 - attaches requires_grad to Tensor
from fastdist.core.errors import ForbiddenFunctionError, MessageError, RpcError
from fastdist.distributed.rpc.message import body as body_room
from fastdist.distributed.rpc.message import gate
from fastdist.distributed.rpc.message.body import (
    deserialize,
    deserialize_call,
    reads_plainly,
    serialize,
    serialize_call,
)
from fastdist.distributed.rpc.message.layout import EMPTY, NAMED, PICKLE, TENSORS
from fastdist.tensor.parameter import Parameter
from fastdist.tensor.tensor import Tensor, from_array, wrap


def first(*args: Any) -> Any:
    return args[0]


class Thing:
    def method(self) -> None:
        pass


@pytest.fixture
def strict() -> Iterator[None]:
    gate.set_mode(gate.STRICT)
    yield
    gate.set_mode(gate.OPEN)


def packed(
    function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> tuple[bytes, int, list[Tensor]]:
    tensors: list[Tensor] = []
    body, encoding = serialize_call(function, args, kwargs or {}, tensors)
    return body, encoding, tensors


def zeros(size: int = 2) -> Tensor:
    return from_array(np.zeros(size))


@pytest.mark.parametrize(
    ("args", "kwargs", "how"),
    [
        ((), {}, EMPTY),
        ((1, "a"), {}, PICKLE),
        ((), {"x": 1}, PICKLE),
        ([1], {"x": [2]}, PICKLE),
    ],
)
def test_a_call_of_a_function_that_has_a_name_travels_by_it(
    args: Sequence[Any], kwargs: dict[str, Any], how: int
) -> None:
    body, encoding, tensors = packed(first, args, kwargs)
    assert encoding == NAMED | how
    assert deserialize_call(body, encoding, tensors) == (first, args, kwargs)


@pytest.mark.parametrize("function", [len, operator.add, os.path.join, wrap])
def test_functions_of_libraries_travel_by_name(function: Callable[..., Any]) -> None:
    body, encoding, _ = packed(function)
    assert encoding == NAMED | EMPTY
    assert deserialize_call(body, encoding, ())[0] is function


@pytest.mark.parametrize("function", [Thing, Thing.method, [].__len__, operator.itemgetter(1)])
def test_other_callables_travel_in_the_pickle(function: Callable[..., Any]) -> None:
    body, encoding, _ = packed(function, (1,))
    assert encoding == PICKLE
    came, args, _ = deserialize_call(body, encoding, ())
    assert args == (1,) and type(came) is type(function)


def test_arguments_that_are_all_tensors_need_no_pickle() -> None:
    args = (zeros(), Parameter(zeros()))
    body, encoding, tensors = packed(first, args)
    assert encoding == NAMED | TENSORS and tensors == list(args)
    came = deserialize_call(body, encoding, [*tensors, zeros()])
    assert came[1] == args and came[2] == {}


def test_a_tensor_that_comes_twice_arrives_as_one() -> None:
    x = zeros()
    body, encoding, tensors = packed(first, (x, x))
    assert tensors == [x]
    arrived = deserialize_call(body, encoding, tensors)[1]
    assert arrived[0] is arrived[1] is x


def test_a_lone_tensor_needs_no_pickle_and_a_tuple_of_one_stays_a_tuple() -> None:
    x, tensors = zeros(), list[Tensor]()
    body, encoding = serialize(x, tensors)
    assert encoding == TENSORS and deserialize(body, encoding, tensors) is x
    body, encoding, tensors = packed(first, (x,))
    assert deserialize_call(body, encoding, tensors)[1] == (x,)


def test_a_name_that_came_to_mean_something_else_is_looked_up_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body, encoding, _ = packed(first)
    assert deserialize_call(body, encoding, ())[0] is first
    before, other = first, lambda *args: None
    monkeypatch.setattr(__import__(__name__, fromlist=["x"]), "first", other)
    assert deserialize_call(body, encoding, ())[0] is other
    with pytest.raises(RpcError, match="it's not the same object"):
        packed(before)


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"", NAMED),
        (b"\x05", NAMED),
        (b"\x05\0abc", NAMED),
        (b"\x0c\0builtins:len", NAMED | 0x7F),
        (b"\x0c\0builtins:len", NAMED | TENSORS),
        (b"\x0c\0builtins:len\x02\0", NAMED | TENSORS),
        (b"\x0c\0builtins:lenrubbish", NAMED | PICKLE),
        (b"\xff\xff", TENSORS),
        (b"\x01\0", TENSORS),
        (b"", 0x7F),
    ],
)
def test_rubbish_is_a_message_error(body: bytes, encoding: int) -> None:
    with pytest.raises(MessageError):
        deserialize_call(body, encoding, ())


@pytest.mark.parametrize("body", [b"\x0c\0builtins:xyz", b"\x07\0nowhere", b"\x05\0no:no"])
def test_a_name_of_nothing_is_an_error_of_the_call(body: bytes) -> None:
    with pytest.raises((AttributeError, ImportError, ValueError)):
        deserialize_call(body, NAMED, ())


def test_strict_mode_runs_no_name_that_was_not_exported(strict: None) -> None:
    body, encoding, _ = packed(first)
    for _ in range(2):
        with pytest.raises(ForbiddenFunctionError):
            deserialize_call(body, encoding, ())
    for plain in (b"\x0d\0builtins:dict", b"\x13\0builtins:ValueError"):
        with pytest.raises(ForbiddenFunctionError, match="may not be called"):
            deserialize_call(plain, NAMED, ())
    gate.export(first)
    assert deserialize_call(body, encoding, ())[0] is first


def test_a_body_is_read_as_it_was_looked_at(strict: None, monkeypatch: pytest.MonkeyPatch) -> None:
    deep: Any = 0
    for _ in range(2 * (gate.max_nesting() or 0)):
        deep = [deep]
    hostile, require_sound = pickle.dumps(deep, 5), body_room.require_sound
    body, size = bytearray(hostile), len(hostile)
    harmless = next(p for n in range(size) if len(p := pickle.dumps(b"x" * n, 5)) == size)

    def when_another_wrote(*given: Any) -> Any:
        body[:] = harmless
        return require_sound(*given)

    monkeypatch.setattr(body_room, "require_sound", when_another_wrote)
    with pytest.raises(MessageError):
        deserialize(memoryview(body)[:], PICKLE, ())


def test_what_open_mode_found_is_forbidden_once_the_mode_is_strict() -> None:
    body, encoding, _ = packed(os.path.join)
    assert deserialize_call(body, encoding, ())[0] is os.path.join
    gate.set_mode(gate.STRICT)
    try:
        with pytest.raises(ForbiddenFunctionError):
            deserialize_call(body, encoding, ())
    finally:
        gate.set_mode(gate.OPEN)


def test_only_what_no_user_wrote_reads_plainly() -> None:
    for value in (5, [1.5, {"x": None}], (zeros(), 1)):
        body, encoding = serialize(value, [])
        assert encoding == PICKLE and reads_plainly(body), value
    assert not reads_plainly(serialize(Thing(), [])[0])


def test_a_body_that_is_read_as_any_pickle_is_gives_no_tensor_that_is_none() -> None:
    body, _ = serialize(["text", from_array(np.ones(3))], [])
    with pytest.raises(RuntimeError, match="only the Unpickler of a message knows its tensors"):
        pickle.loads(body)

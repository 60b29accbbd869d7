"""Attacks on a worker in strict mode by a member of its job that sends forged pickles."""

from __future__ import annotations

import datetime
import io
import pickle
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fastdist.core.errors import FastdistError, ForbiddenFunctionError, MessageError
from fastdist.distributed import rpc
from fastdist.distributed.rpc.message import body as bodies
from fastdist.distributed.rpc.message import gate
from fastdist.distributed.rpc.message.body import deserialize, deserialize_call, serialize
from fastdist.distributed.rpc.message.layout import NAMED, PICKLE
from tests.distributed.members import members
from tests.distributed.rpc import forged
from tests.distributed.rpc.forged import (
    MEMOIZE,
    NEWOBJ,
    call,
    data,
    get,
    named,
    number,
    pickled,
    text,
    tuple_of,
)
from tests.distributed.workers import Group


@rpc.export
def echo(value: Any) -> Any:
    return value


@rpc.export
def field(value: Any) -> Any:
    return value["a"]


@rpc.export
class Exported:
    pass


@rpc.export
class Records(np.ndarray[Any, Any]):
    pass


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with members(__file__, 2, strict=True) as group:
        yield group


def send_forged(function: str, value: bytes, error: str) -> None:
    """Call a function of w1 with forged opcodes as its argument, and check the error."""
    real = bodies._pickle
    whole = forged.START + tuple_of(tuple_of(value), b"}") + forged.STOP
    bodies._pickle = lambda *_: whole
    try:
        with pytest.raises(FastdistError, match=error):
            rpc.rpc_sync("w1", globals()[function], (1,))
    finally:
        bodies._pickle = real
    assert rpc.rpc_sync("w1", echo, ("alive",)) == "alive"


@pytest.mark.parametrize("itemsize", [256, 4096, 65_536])
def test_an_array_whose_dtype_grows_afterwards_brings_no_memory_back(
    group: Group, itemsize: int
) -> None:
    group[0].run(send_forged, "echo", forged.grown_array(itemsize), "that is finished")


@pytest.mark.parametrize("offset", [64, 2**30])
def test_a_field_outside_of_an_array_is_not_read(group: Group, offset: int) -> None:
    value = forged.array_with_field_outside(offset)
    group[0].run(send_forged, "field", value, "that is finished")


def test_a_fraction_of_an_exponent_stops_no_worker(group: Group) -> None:
    value = call(named("fractions", "Fraction"), text("1e30000000"))
    group[0].run(send_forged, "echo", value, "in a form that no worker writes")


@pytest.fixture
def strict() -> Iterator[None]:
    gate.set_mode(gate.STRICT)
    yield
    gate.set_mode(gate.OPEN)


def read(*opcodes: bytes) -> Any:
    return deserialize(pickled(*opcodes), PICKLE, [])


def test_opcodes_that_a_frame_hides_from_the_look_are_not_run(strict: None) -> None:
    body = forged.hidden_by_a_frame(named("builtins", "Ellipsis"))
    with pytest.raises(MessageError, match="frame that ends within an opcode"):
        deserialize(body, PICKLE, [])
    # An Unpickler that reads from a stream finds other opcodes than pickle.loads.
    assert type(pickle.loads(body)) is bytes
    assert pickle.Unpickler(io.BytesIO(body)).load() is Ellipsis


REBUILT = [
    call(named("fastdist.distributed.rpc.message.numpy_values", "rebuild_dtype"), text("<f8")),
    call(named("fastdist.distributed.rpc.message.numpy_values", "rebuild_array"), text("<f8"),
         tuple_of(number(0)), text("C"), data(b"")),
    call(named("fastdist.distributed.rpc.message.numpy_values", "rebuild_scalar"), text("<f8"),
         data(bytes(8))),
    call(named("datetime", "timedelta"), number(1), number(2), number(3)),
    call(named("decimal", "Decimal"), text("1.5")),
    call(named(__name__, "echo"), b"}"),
    call(named(__name__, "Records"), tuple_of(number(1))),
    call(named("fastdist.distributed.rpc.message.error_parts", "rebuild_error"),
         named("builtins", "ValueError"), tuple_of(text("x")), b"}"),
]  # fmt: skip


@pytest.mark.one_in(5)
@pytest.mark.parametrize("made", REBUILT, ids=range(len(REBUILT)))
@pytest.mark.parametrize("change", [b"}b", b"NNs", b"(NNu", b"Na", b"(Ne", b"(N\x90"])
def test_what_a_function_returned_takes_nothing_more(
    strict: None, made: bytes, change: bytes
) -> None:
    with pytest.raises(MessageError, match="that is finished"):
        read(made, change)


@pytest.mark.parametrize(
    "named_class", [named("builtins", "ValueError"), named(__name__, "Exported")]
)
def test_an_instance_made_here_takes_a_state_and_one_that_was_named_does_not(
    strict: None, named_class: bytes
) -> None:
    with pytest.raises(MessageError, match="only names"):
        read(named_class, b"}b")
    if b"Exported" in named_class:
        assert read(named_class, b")", NEWOBJ, b"}", text("x"), b"K\x05sb").x == 5


BOMBS = {
    "bytes of a number": call(named("builtins", "bytearray"), number(50_000_000)),
    "bytes by new": named("builtins", "bytes") + tuple_of(number(50_000_000)) + NEWOBJ,
    "a list of a range": call(named("builtins", "list"), call(named("builtins", "range"),
        number(0), number(10**9), number(1))),
    "a deque of a range": call(named("collections", "deque"), call(named("builtins", "range"),
        number(0), number(10**9), number(1)), number(10**9)),
    "an int of a text": call(named("builtins", "int"), text("9" * 4000)),
    "a fraction of a text": call(named("fractions", "Fraction"), text("1e30000000")),
    "a range by new": named("builtins", "range") + tuple_of(number(10**9)) + NEWOBJ,
    "a tuple by new": named("builtins", "tuple") + tuple_of(call(named("builtins", "range"),
        number(0), number(10**9), number(1))) + NEWOBJ,
    "long division": call(named("builtins", "range"), number(0), number(1 << 8_000_000),
        number(1 << 4_000_000)),
    "a group of a range": call(named("builtins", "ExceptionGroup"), text("x"), call(named(
        "builtins", "range"), number(0), number(10**9), number(1))),
    "a place of a range": call(named("builtins", "SyntaxError"), text("x"), call(named(
        "builtins", "range"), number(0), number(10**9), number(1))),
    "what a call returned": call(call(named(__name__, "echo"), named(__name__, "echo")), b"N"),
    "a key hashed for years": b"}" + b")" + b"\x94h\0\x86" * 1 + b"".join(
        b"\x94h" + bytes([n]) + b"\x86" for n in range(1, 60)) + b"Ns",
    "a set hashed for years": b")" + b"\x94h\0\x86" + b"".join(
        b"\x94h" + bytes([n]) + b"\x86" for n in range(1, 60)) + b"0(" + get(59) + b"\x91",
    "copies of one text": b"(" + tuple_of(text("|S1000000"), data(bytes(10**6))) + MEMOIZE + (
        named("fastdist.distributed.rpc.message.numpy_values", "rebuild_scalar") + MEMOIZE + (
        get(1) + get(0) + b"R") * 100) + b"t",
    "one key over and over": b"}(" + number(1 << 8_000_000) + MEMOIZE + b"N" + (
        get(0) + b"N") * 1000 + b"u",
    "one state over and over": b"(" + b"}(" + b"".join(
        b"M" + n.to_bytes(2, "little") + b"N" for n in range(20_000)) + b"u" + MEMOIZE + (
        named(__name__, "Exported") + MEMOIZE + (get(1) + b")\x81" + get(0) + b"b") * 1000) + b"t",
}  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_nothing_takes_much_more_memory_or_time_than_its_bytes(strict: None, bomb: bytes) -> None:
    begun = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(MessageError):
            read(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000 + 30 * len(bomb)
    assert time.process_time() - begun < 10


def test_what_must_be_read_of_a_body_is_looked_at_first(strict: None) -> None:
    # A forbidden call is still decoded, because of the references in it.
    hostile = b"}" + b")" + b"\x85" * 300_000 + b"Ns" + text("rebuild_rref") + b"\x86."
    name = b"\x09\0os:getpid"
    with pytest.raises(ForbiddenFunctionError):
        deserialize_call(name + forged.START + hostile, NAMED | PICKLE, [])


def test_a_body_in_memory_of_its_own_is_read_as_one_in_a_frame_is(strict: None) -> None:
    body = pickle.dumps({"key": [1 + 2j, b"data"]}, 5)
    assert deserialize(memoryview(body), PICKLE, []) == {"key": [1 + 2j, b"data"]}


def test_times_are_values_that_anybody_may_send(strict: None) -> None:
    moment = datetime.datetime.fromisoformat("2024-02-29T23:59:58.123456")
    sent = [moment, moment.date(), datetime.timedelta(1, 2, 3)]
    assert deserialize(*serialize(sent, []), []) == sent


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("kind", [str, float])
def test_many_that_are_found_by_the_same_long_key_are_read(strict: None, kind: type) -> None:
    # All dicts refer to one key, which is pickled once but hashed each time.
    key = (*map(kind, range(100)),)
    found = [{key: number} for number in range(20_000)]
    assert deserialize(*serialize(found, []), []) == found


heard: list[int] = []


def hear_of(number: int) -> int:
    heard.append(number)
    return number


def test_what_must_be_read_is_read_beside_what_nobody_may_name(
    strict: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "_rebuilders", dict(bodies._rebuilders))
    monkeypatch.setattr(bodies, "_must_be_read", list(bodies._must_be_read))
    monkeypatch.setattr(bodies, "_reducers", dict(bodies._reducers))
    bodies.register_reducer(Heard, lambda one: (hear_of, (5,)), hear_of, must_be_read=True)
    # An object of a class that is not exported, its state, and a value that must be read.
    stranger = named("no.such.module", "Class") + b")" + NEWOBJ
    state = b"}" + text("a") + number(1) + b"s" + forged.BUILD
    body = pickled(tuple_of(stranger + state, call(named(__name__, "hear_of"), number(5))))
    with pytest.raises(ForbiddenFunctionError):
        deserialize(body, PICKLE, [])
    assert heard == [5]


class Heard:
    pass


def test_an_array_without_items_takes_no_memory_for_one(strict: None) -> None:
    tracemalloc.start()
    try:
        array = read(
            call(
                named("fastdist.distributed.rpc.message.numpy_values", "rebuild_array"),
                *(text("|S900000000"), tuple_of(number(0)), text("C"), data(b"")),
            )
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert array.shape == (0,) and array.dtype.itemsize == 900_000_000 and peak < 1_000_000


def test_the_shape_of_a_forged_array_is_told_in_short(strict: None) -> None:
    doubled = b")" + b"".join(b"\x94h" + bytes([n]) + b"\x86" for n in range(60))
    rebuild = named("fastdist.distributed.rpc.message.numpy_values", "rebuild_array")
    with pytest.raises(MessageError, match="that do not fit"):
        read(call(rebuild, text("<f8"), doubled, text("C"), data(b"")))


@pytest.mark.one_in(8)
def test_a_decoding_error_whose_places_lie_outside_of_its_bytes_is_refused(strict: None) -> None:
    # The text of the error would otherwise be read from outside the bytes.
    parts = tuple_of(text("u"), data(b"x"), number(-(10**12)), number(1 - 10**12), text("r"))
    for made in (
        named("builtins", "UnicodeDecodeError") + parts + b"R",
        call(named("fastdist.distributed.rpc.message.error_parts", "rebuild_error"),
             named("builtins", "UnicodeDecodeError"), parts, b"}"),
    ):  # fmt: skip
        with pytest.raises(MessageError):
            read(made)

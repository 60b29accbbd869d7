"""The scan of pickles accepts all that our Pickler writes, and rejects forged pickles."""

from __future__ import annotations

import collections
import datetime
import decimal
import pickle
import pickletools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fastdist.core.errors import MessageError
from fastdist.distributed.rpc.message import gate
from fastdist.distributed.rpc.message.body import deserialize, serialize
from fastdist.distributed.rpc.message.layout import PICKLE
from fastdist.distributed.rpc.message.pickle_scan import MAX_NESTING, require_sound
from tests.distributed.fuzzing import Mutator, bounded_memory

START = b"\x80\x05"


class Thing:
    def __init__(self, **state: object) -> None:
        self.__dict__.update(state)


class WithNew(tuple[int, ...]):
    __slots__ = ()

    def __getnewargs_ex__(self) -> tuple[tuple[object, ...], dict[str, object]]:
        return ((1, 2),), {}


def circle() -> list[Any]:
    ring: list[Any] = [1]
    ring.append(({"ring": ring}, ring))
    return ring


VALUES: list[Any] = [
    None,
    True,
    (0, 255, 65_535, -1, 2**31, 2**64, -(2**3000), 1.5),
    ("", "x", "ü" * 300, "x" * 70_000, b"", b"x", b"x" * 300, bytearray(b"x" * 300)),
    ([], [1], [1, 2], {}, {1: 2}, {1: 2, 3: 4}, set(), {1, 2}, frozenset({1, 2}), ()),
    [list(range(3000)), {n: str(n) for n in range(3000)}, set(range(3000))],
    (len, dict, ValueError("x"), slice(1, 2), range(3), complex(1, 2)),
    collections.OrderedDict(a=collections.deque([1])),
    (datetime.date(2026, 1, 2), decimal.Decimal("1.5")),
    (np.arange(3.0), np.float32(1), np.dtype("i4")),
    Thing(a=[Thing(b=1)], c=None),
    WithNew((1, 2)),
    circle(),
    [["shared"] * 3] * 3,
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_whatever_our_pickler_writes_is_sound(value: Any) -> None:
    require_sound(serialize((value, {"x": value}), [])[0])


def nested(depth: int, kind: type[Any] = list) -> Any:
    value: Any = kind()
    for _ in range(depth - 1):
        value = {1: value} if kind is dict else kind([value])
    return value


@pytest.mark.parametrize("kind", [list, tuple, dict, frozenset])
def test_nesting_is_allowed_up_to_its_limit_and_not_one_deeper(kind: type[Any]) -> None:
    require_sound(pickle.dumps(nested(MAX_NESTING, kind), 5))
    with pytest.raises(MessageError, match=f"nests deeper than {MAX_NESTING} levels"):
        require_sound(pickle.dumps(nested(MAX_NESTING + 1, kind), 5))
    require_sound(pickle.dumps(nested(100, kind), 5), max_nesting=100)
    with pytest.raises(MessageError, match="nests deeper than 3 levels"):
        require_sound(pickle.dumps(nested(4, kind), 5), max_nesting=3)


def test_states_count_as_levels_as_well() -> None:
    thing = Thing()
    for _ in range(MAX_NESTING):
        thing = Thing(inner=thing)
    with pytest.raises(MessageError, match="nests deeper"):
        require_sound(pickle.dumps(thing, 5))


def test_tuples_that_would_overflow_the_stack_when_they_are_hashed_are_refused() -> None:
    body = START + b"}" + b")" + b"\x85" * 300_000 + b"Ns."
    with pytest.raises(MessageError, match="nests deeper"):
        require_sound(body)


@pytest.mark.parametrize(
    "body",
    [
        START + b"Nr\xff\xff\xff\xff.",  # a memo of 2^32 entries
        START + b"Nq\0.",
        b"cos\nsystem\n(S'true'\ntR.",  # written by protocol 0
        b"(ios\nsystem\n.",
        START + b"P0\n.",
        START + b"\x82\1.",
        START + b"N2.",  # DUP
        START + b"\x97.",  # an out-of-band buffer that is missing
        START + b"I1\n.",
        START + b"\xff.",
    ],
)
def test_what_no_worker_writes_is_refused(body: bytes) -> None:
    with pytest.raises(MessageError, match="which no worker writes"):
        require_sound(body)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        START,
        START + b".",
        START + b"N",
        START + b"NN.",
        START + b"N.N.",
        START + b"(N\x85.",
        START + b"N(\x85.",
        START + b"t.",
        START + b"0.",
        START + b"1.",
        START + b"\x94.",
        START + b"h\0.",
        START + b"Nh\0\x86.",
        START + b"NNs.",
        START + b"N\x93.",
        START + b"\x8e" + (2**40).to_bytes(8, "little") + b".",
        START + b"\x96" + (2**63).to_bytes(8, "little") + b".",
        START + b"\x8b\xff\xff\xff\x7f.",
        START + b"\x95" + bytes(7),
        START + b"G" + bytes(7),
    ],
)
def test_a_pickle_that_is_none_is_a_message_error(body: bytes) -> None:
    with pytest.raises(MessageError):
        require_sound(body)


def opcodes_of(body: bytes) -> set[str]:
    """Return the names of opcodes, up to the first text that cannot be decoded."""
    names = set()
    try:
        for opcode, _, _ in pickletools.genops(body):
            names.add(opcode.name)
    except UnicodeDecodeError:
        pass  # the Unpickler rejects such a text too
    return names


@pytest.mark.one_in(4)
def test_broken_pickles_are_refused_or_bounded_by_what_came(samples_alone: bool) -> None:
    many = 4_000 if samples_alone else 20_000
    mutator = Mutator(11)
    bodies = [serialize(value, [])[0] for value in VALUES[3:5] + VALUES[6:]]
    passed = 0
    with bounded_memory():
        for number in range(many):
            body = mutator.break_bytes(bodies[number % len(bodies)])
            try:
                require_sound(body)
            except MessageError:
                continue
            passed += 1
            assert not opcodes_of(body) & {"LONG_BINPUT", "BINPUT", "GLOBAL", "INST", "DUP"}
    assert 0 < passed < many


def test_random_nests_of_values_are_sound_and_measured_as_they_are() -> None:
    rng = random.Random(5)

    def value(depth: int) -> tuple[Any, int]:
        if depth == 0 or rng.random() < 0.3:
            return rng.choice([1, "x", None, 2.5]), 0
        parts = [value(depth - 1) for _ in range(rng.randrange(4))]
        deep = 1 + max([inner for _, inner in parts], default=0)
        items = [item for item, _ in parts]
        kind = rng.randrange(3)
        return (items, tuple(items), dict(enumerate(items)))[kind], deep

    for _ in range(500):
        made, deep = value(6)
        body = pickle.dumps(made, 5)
        require_sound(body, max_nesting=max(deep, 1))
        if deep > 1:
            with pytest.raises(MessageError, match="nests deeper"):
                require_sound(body, max_nesting=deep - 1)


@pytest.fixture
def strict() -> Iterator[None]:
    gate.set_mode(gate.STRICT)
    yield
    gate.set_mode(gate.OPEN)


def test_reading_broken_pickles_in_strict_mode_takes_no_memory_and_runs_nobody(
    strict: None, samples_alone: bool
) -> None:
    many = 2_000 if samples_alone else 8_000
    mutator = Mutator(12)
    small = [value for value in VALUES if not isinstance(value, Thing)]
    bodies = [body for value in small if len(body := serialize(value, [])[0]) < 10_000]
    outcomes: collections.Counter[str] = collections.Counter()
    with bounded_memory():
        for number in range(many):
            body = mutator.break_bytes(bodies[number % len(bodies)])
            try:
                deserialize(body, PICKLE, [])
            except (MemoryError, RecursionError, SystemError):
                raise
            except Exception as error:  # an error of a message, the gate, or a corrupted value
                outcomes[type(error).__name__] += 1
    assert outcomes["MessageError"] > many // 8 and outcomes["ForbiddenFunctionError"] > 0, outcomes


@pytest.mark.one_in(2)
@pytest.mark.parametrize("code", [b"]", b"}", b"\x8f", b"(\x91"])
def test_bytes_that_each_make_a_container_are_refused_where_they_are_many(code: bytes) -> None:
    """An empty set takes one byte in a body, and 216 bytes in memory."""
    with pytest.raises(MessageError, match="so many lists, dicts or sets"):
        require_sound(START + b"](" + code * 100_000 + b"e\x94.")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("empty", [list, dict], ids=["lists", "dicts"])
def test_as_many_empty_values_as_somebody_sends_are_sound(empty: type[Any]) -> None:
    require_sound(pickle.dumps([empty() for _ in range(30_000)], protocol=5))


@pytest.mark.one_in(4)
def test_sets_with_something_in_them_are_sound() -> None:
    require_sound(pickle.dumps([{number} for number in range(30_000)], protocol=5))

"""A pickle that passes the scan has no effects beyond those that the scan's model allows.

A grammar generates pickles, so that many of them pass. They are read by the real Unpickler, and by
an interpreter in Python that checks each value.
"""

from __future__ import annotations

import io
import itertools
import pickle
import random
import struct
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from fastdist.core.errors import FastdistError, MessageError
from fastdist.distributed import rpc
from fastdist.distributed.rpc.message import gate
from fastdist.distributed.rpc.message.body import _Unpickler
from fastdist.distributed.rpc.message.pickle_scan import require_sound
from tests.distributed.fuzzing import bounded_memory
from tests.distributed.rpc.forged import START, data, named, number, text

_REBUILD = "fastdist.distributed.rpc.message."


@rpc.export
class Thing:
    """An exported class whose instances accept any arguments."""


@rpc.export
class Sized(list[Any]):
    """An exported list of at most 1,000 values, because a body may pass it range(2**63)."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        super().__init__(itertools.islice(values, 1_000))


@rpc.export
class Raw(np.ndarray[Any, Any]):
    """An exported class that trusts its state."""

    def __new__(cls, *_: object) -> Raw:
        return super().__new__(cls, 1)


SHARED = Thing()


@rpc.export
def shared(*_: Any) -> Thing:
    return SHARED


@rpc.export
def same(value: Any = None) -> Any:
    return value


NAMES = [
    *[
        ("builtins", name)
        for name in ("range", "slice", "complex", "object", "dict", "list", "int")
    ],
    *[("builtins", name) for name in ("bytearray", "bytes", "tuple", "set", "eval", "getattr")],
    *[("builtins", name) for name in ("ValueError", "OSError", "UnicodeDecodeError", "KeyError")],
    *[("builtins", name) for name in ("SyntaxError", "ExceptionGroup", "SystemExit", "str")],
    *[("collections", name) for name in ("OrderedDict", "deque", "defaultdict")],
    *[("datetime", name) for name in ("date", "datetime", "timedelta")],
    *[("decimal", "Decimal"), ("fractions", "Fraction"), ("json.decoder", "JSONDecodeError")],
    *[(_REBUILD + "numpy_values", f"rebuild_{what}") for what in ("dtype", "array", "scalar")],
    *[(_REBUILD + "error_parts", name) for name in ("rebuild_error", "set_error_state")],
    (_REBUILD + "body", "_tensor_at"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    *[(__name__, name) for name in ("Thing", "Sized", "Raw", "shared", "same", "SHARED")],
]
TEXTS = ["", "x", "a", "<f8", "|S1", "<U3", "C", "F", "1.5", "1e9", "nan", "__class__", "start"]
DATA = [b"", b"A", bytes(8), bytes(16), b"\x07\xea\x01\x02", b"\x07\xea\x01\x02" + bytes(6)]
NUMBERS = [0, 1, 2, 16, -1, 255, 65_536, 2**31, 2**63, -(10**12), 10**30, 2**4000]


class Grammar:
    """Generates pickles whose stack operations are mostly valid and whose values are mostly not."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._memo = 0

    def body(self) -> bytes:
        """Return one pickle."""
        self._memo = 0
        opcodes = self.value(self.random.randint(1, 4))
        if self.random.random() < 0.2:
            opcodes = self._framed(opcodes)
        return START + opcodes + b"."

    def value(self, depth: int) -> bytes:
        """Return opcodes that push one value."""
        pick = self.random.random()
        if depth == 0 or pick < 0.15:
            made = self._single()
        elif pick < 0.3 and self._memo:
            return self._get()
        elif pick < 0.5:
            made = self._collection(depth)
        else:
            made = self._call(depth)
        while self.random.random() < 0.35:
            made += self._change(depth)
        if self.random.random() < 0.5:
            self._memo += 1
            made += b"\x94"
        return made

    def _single(self) -> bytes:
        choose = self.random.choice
        return choose(
            (
                lambda: choose((b"N", b"\x88", b"\x89", b"]", b"}", b")", b"\x8f")),
                lambda: b"K" + bytes([self.random.randrange(256)]),
                lambda: b"G" + struct.pack(">d", choose((0.0, 1.5, float("nan"), 1e300))),
                lambda: number(choose(NUMBERS)),
                lambda: text(choose(TEXTS)),
                lambda: data(choose(DATA)),
                lambda: b"\x96" + struct.pack("<Q", 3) + b"abc",
                lambda: named(*choose(NAMES)),
            )
        )()

    def _get(self) -> bytes:
        return b"h" + bytes([self.random.randrange(self._memo) & 255])

    def _items(self, depth: int, most: int = 4) -> bytes:
        return b"".join(self.value(depth - 1) for _ in range(self.random.randrange(most + 1)))

    def _collection(self, depth: int) -> bytes:
        kind = self.random.randrange(5)
        if kind == 0:
            return b"](" + self._items(depth) + b"e"
        if kind == 1:
            return b"}(" + self.value(depth - 1) + self.value(depth - 1) + b"u"
        if kind == 2:
            return b"\x8f(" + self._items(depth) + b"\x90"
        return b"(" + self._items(depth) + (b"t" if kind == 3 else b"\x91")

    def _call(self, depth: int) -> bytes:
        module, name = self.random.choice(NAMES)
        if self.random.random() < 0.6:
            known = self._known_form(name, depth)
            if known is not None:
                return named(module, name) + known
        args = b"(" + self._items(depth) + b"t"
        how = self.random.choice((b"R", b"R", b"\x81", b"}\x92"))
        callable_ = named(module, name) if self.random.random() < 0.9 else self.value(depth - 1)
        return callable_ + args + how

    def _known_form(self, name: str, depth: int) -> bytes | None:
        choose = self.random.choice
        error = named("builtins", choose(("ValueError", "OSError", "UnicodeDecodeError")))
        forms = {
            "rebuild_dtype": lambda: text(choose(TEXTS)) + b"\x85R",
            "rebuild_scalar": lambda: text(choose(TEXTS)) + data(choose(DATA)) + b"\x86R",
            "rebuild_array": lambda: (
                b"(" + text(choose(TEXTS)) + number(choose(NUMBERS)) + b"\x85" + text("C")
                + data(choose(DATA)) + b"tR"
            ),
            "rebuild_error": lambda: error + b"(" + self._items(depth) + b"t}\x87R",
            "set_error_state": lambda: (
                error.join((named(_REBUILD + "error_parts", "rebuild_error"), b")}\x87R"))
                + b"}" + text("x") + self.value(depth - 1) + b"s}\x86\x86R"
            ),
            "range": lambda: b"".join(number(choose(NUMBERS)) for _ in range(3)) + b"\x87R",
            "timedelta": lambda: b"".join(number(choose(NUMBERS)) for _ in range(3)) + b"\x87R",
            "Fraction": lambda: number(choose(NUMBERS)) + number(choose(NUMBERS)) + b"\x86R",
            "Decimal": lambda: text(choose(TEXTS)) + b"\x85R",
            "date": lambda: data(choose(DATA)) + b"\x85R",
            "deque": lambda: b"))R"[1:],
            "OrderedDict": lambda: b")R",
            "Thing": lambda: b")\x81",
            "Sized": lambda: b")\x81",
            "Raw": lambda: number(1) + b"\x85\x81",
        }  # fmt: skip
        return forms[name]() if name in forms else None

    def _change(self, depth: int) -> bytes:
        one = self.value(depth - 1) if depth else self._single()
        kind = self.random.randrange(6)
        if kind == 0:
            return one + b"a"
        if kind == 1:
            return one + b"Ns"
        if kind == 2:
            return b"(" + one + b"\x90"
        if kind == 3:
            return b"(" + one + b"e"
        if kind == 4:
            return b"}" + text(self.random.choice(TEXTS)) + one + b"sb"
        return one + b"b"

    def _framed(self, opcodes: bytes) -> bytes:
        # The frame length is right in half of the cases. A frame may cover only some opcodes.
        size = len(opcodes) + 1
        if self.random.random() < 0.5:
            size = self.random.randrange(size + 2)
        at = 0 if self.random.random() < 0.7 else self.random.randrange(len(opcodes))
        return opcodes[:at] + b"\x95" + struct.pack("<Q", size) + opcodes[at:]


class Forbidden(AssertionError):
    """An action that the model does not allow."""


class Watched(pickle._Unpickler):  # type: ignore[name-defined,misc]
    """An Unpickler in Python that checks each call and change against the rules of strict mode.

    The model checks the real values as they change; the scan only knows their kinds and uses.
    """

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)  # type: ignore[attr-defined]

    def __init__(self, body: bytes) -> None:
        super().__init__(io.BytesIO(body))
        self._reader = _Unpickler(io.BytesIO(), [])
        self._named: list[object] = []
        self._returned: list[object] = []

    def find_class(self, module: str, name: str) -> Any:
        """Look up a name as the real Unpickler does."""
        found = self._reader.examine(module, name)[0]
        self._named.append(found)
        return found

    def require_named(self, value: object) -> None:
        """Require that a called value was looked up by name."""
        if not any(value is one for one in self._named):
            raise Forbidden(f"{value!r} is called and was not named")

    def require_free(self, value: object, taker: tuple[type, ...]) -> None:
        """Require that a changed object was created by this pickle and has one of these classes."""
        is_ours = any(value is one for one in (*self._named, *self._returned, SHARED))
        if is_ours or isinstance(value, (np.ndarray, np.generic, np.dtype, type)):
            raise Forbidden(f"{value!r} is changed")
        if not isinstance(value, taker):
            raise Forbidden(f"{value!r} is changed by an opcode for {taker}")


def _watch(opcode: bytes, before: Any) -> None:
    original = Watched.dispatch[opcode[0]]

    def watched(self: Watched) -> None:
        before(self)
        original(self)

    Watched.dispatch[opcode[0]] = watched


_KEYS = (dict, Thing, Sized)
_LISTS = (list, deque, Thing)
_watch(b"a", lambda self: self.require_free(self.stack[-2], _LISTS))
_watch(b"e", lambda self: self.require_free(self.metastack[-1][-1], _LISTS))
_watch(b"s", lambda self: self.require_free(self.stack[-3], _KEYS))
_watch(b"u", lambda self: self.require_free(self.metastack[-1][-1], _KEYS))
_watch(b"\x90", lambda self: self.require_free(self.metastack[-1][-1], (set,)))
_watch(b"b", lambda self: self.require_free(self.stack[-2], (Thing, Sized, BaseException)))
_watch(b"R", lambda self: self.require_named(self.stack[-2]))
_watch(b"\x81", lambda self: self.require_named(self.stack[-2]))
_watch(b"\x92", lambda self: self.require_named(self.stack[-3]))


@pytest.fixture
def strict() -> Iterator[None]:
    gate.set_mode(gate.STRICT)
    yield
    gate.set_mode(gate.OPEN)
    assert vars(SHARED) == {}


def try_one(body: bytes, outcomes: Counter[str]) -> None:
    """Scan a body; if it passes, read it with both Unpicklers."""
    try:
        require_sound(body, examine=_Unpickler(io.BytesIO(), []).examine)
    except FastdistError:
        outcomes["refused"] += 1
        return
    outcomes["sound"] += 1
    try:
        Watched(body).load()
    except Forbidden:
        raise
    except Exception as error:  # an error of the values, such as a fraction with denominator zero
        outcomes[type(error).__name__] += 1
    try:
        gate_reader = _Unpickler(io.BytesIO(body), [])
        gate_reader.found = require_sound(body, examine=gate_reader.examine)
        gate_reader.load()
        outcomes["read"] += 1
    except (MemoryError, SystemError, RecursionError):
        raise
    except Exception:
        outcomes["failed"] += 1


def fuzz(seed: int, count: int) -> Counter[str]:
    """Try `count` bodies."""
    grammar, outcomes = Grammar(seed), Counter[str]()
    for _ in range(count):
        body = grammar.body()
        try:
            try_one(body, outcomes)
        except BaseException as error:
            error.add_note(f"seed {seed}, body {body!r}")
            raise
    return outcomes


@pytest.mark.one_in(4)
def test_what_passes_the_look_does_what_the_model_allows(strict: None) -> None:
    with bounded_memory():
        outcomes = fuzz(1, 4_000)
    assert outcomes["read"] > 200 and outcomes["refused"] > 1_000, outcomes


def test_the_model_sees_what_the_look_would_have_to_refuse(strict: None) -> None:
    for bad in (
        named(__name__, "Thing") + b"}b",
        named(__name__, "shared") + b")R}b",
        named(_REBUILD + "numpy_values", "rebuild_dtype") + text("<f8") + b"\x85R}b",
        named(__name__, "same") + named(__name__, "same") + b"\x85R)R" + b"]\x81",
    ):
        body = START + bad + b"."
        with pytest.raises(MessageError):
            require_sound(body, examine=_Unpickler(io.BytesIO(), []).examine)
        with pytest.raises(Forbidden):
            Watched(body).load()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 100, 10))
def test_a_million_bodies_do_what_the_model_allows(strict: None, first: int) -> None:
    with bounded_memory():
        outcomes = sum((fuzz(seed, 10_000) for seed in range(first, first + 10)), Counter[str]())
    assert outcomes["read"] > 5_000, outcomes

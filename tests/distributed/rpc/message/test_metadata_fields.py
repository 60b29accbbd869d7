"""Metadata values from peers are accepted only with the right type."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import fastdist.distributed
from fastdist.core.errors import MessageError
from fastdist.distributed.rpc.message.message import Message
from fastdist.distributed.rpc.message.metadata_fields import (
    filled_with_defaults,
    flag,
    ids_of,
    lists_of,
    metadata_of,
    number,
    numbers,
    text,
)
from fastdist.distributed.rpc.references.context import rebuild_rref
from fastdist.distributed.rpc.references.rref import _rref_typeof_on_owner, invoke_on_owner
from tests.distributed.lives import life

_SOURCES = Path(fastdist.distributed.__file__).parent


@pytest.mark.parametrize(
    ("take", "good", "bad"),
    [
        (number, 5, [True, 1.0, "5", None, (5,), b"5"]),
        (flag, False, [0, 1, None, "", ()]),
        (text, "x", [b"x", 1, None, ("x",)]),
        (numbers, (1, 2), [[1], 1, None, (1, "2"), (1, None), ((1,),), (True,)]),
    ],
)
def test_a_word_that_is_none_of_its_kind_is_refused_by_name_and_sender(
    take: Callable[..., Any], good: Any, bad: list[Any]
) -> None:
    assert take({"word": good}, "word", 3) == good
    for value in bad:
        with pytest.raises(MessageError, match=r"^metadata: 'word' of worker 3 is .* expected "):
            take({"word": value}, "word", 3)
    with pytest.raises(MessageError, match="missing"):
        take({}, "word", 3)


class Told(NamedTuple):
    serial: int
    calls: tuple[int, ...] = ()
    is_last: bool = False


def test_fields_that_have_their_defaults_are_left_out_and_filled_in() -> None:
    for told, sent in (
        (Told(0), {"serial": 0}),
        (Told(1, (2,), is_last=True), {"serial": 1, "calls": (2,), "is_last": True}),
    ):
        assert metadata_of(told) == sent
        assert filled_with_defaults(Told, sent, 3) == told
    with pytest.raises(MessageError, match=r"'serial' of worker 3 is missing"):
        filled_with_defaults(Told, {"calls": ()}, 3)
    with pytest.raises(MessageError, match=r"'calls' of worker 3 is 2, expected"):
        filled_with_defaults(Told, {"serial": 1, "calls": 2}, 3)


def test_ids_of_references_that_are_none_are_refused() -> None:
    for words in ({}, {"rref": 1}, {"rref": 1, "fork": "2"}, {"rref": (1,), "fork": 2}):
        with pytest.raises(MessageError, match="of worker 4"):
            ids_of(Message(0, peer=life(4), metadata=words))
    for value in (1, ("1",), None):
        with pytest.raises(MessageError, match="'call' of worker 4"):
            lists_of(Message(0, peer=life(4), metadata={"call": value}), "call")
    with pytest.raises(MessageError, match="expected numbers"):
        rebuild_rref(1, 2, "3", 4, 5)  # type: ignore[arg-type]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    "path",
    [
        path
        for folder in ("rpc", "rpc/gpu_transport", "rpc/torch_names", "autograd", "explain")
        for path in sorted((_SOURCES / folder).glob("*.py"))
    ],
    ids=lambda path: f"{path.parent.stem}-{path.stem}",
)
def test_metadata_is_read_through_metadata_fields_alone(path: Path) -> None:
    """Forbid `x.metadata["word"]`, which raises KeyError, and asserts about types."""
    found = [node.lineno for node in ast.walk(ast.parse(path.read_text())) if _is_unchecked(node)]
    assert not found, f"{path}:{found}: read it by rpc/message/metadata_fields.py"


def _is_unchecked(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        is_read = isinstance(node.ctx, ast.Load)
        return is_read and isinstance(node.value, ast.Attribute) and node.value.attr == "metadata"
    if not isinstance(node, ast.Assert) or not isinstance(node.test, ast.Call):
        return False
    asked = {name.id for name in ast.walk(node.test) if isinstance(name, ast.Name)}
    return "isinstance" in asked and bool(asked & {"bool", "bytes", "dict", "int", "str", "tuple"})


@pytest.mark.one_in(4)
def test_words_are_refused_without_asserts_as_well() -> None:
    code = (
        "from types import SimpleNamespace\n"
        "from fastdist.distributed.rpc.message.message import Message\n"
        "from fastdist.distributed.autograd.messages import handle_abort\n"
        "from fastdist.core.errors import MessageError\n"
        "words = {'context_id': 'x', 'pass_id': 1, 'reason': ''}\n"
        "try: handle_abort(Message(0, peer=SimpleNamespace(id=3), metadata=words))\n"
        "except MessageError as error: print(error)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-O", "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "'context_id' of worker 3 is 'x', expected a number" in ran.stdout


class Pretender(Exception):
    def local_value(self) -> object:
        return self


def test_methods_are_called_on_the_value_of_a_reference_alone() -> None:
    with pytest.raises(TypeError, match="expected an RRef of this worker, got Pretender"):
        invoke_on_owner(Pretender(), "with_traceback", (None,), {})
    with pytest.raises(TypeError, match="got int"):
        _rref_typeof_on_owner(5)

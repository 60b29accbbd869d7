"""An interceptor that names request types gets only those requests; others get all requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fastdist.distributed.rpc import interceptors
from fastdist.distributed.rpc.message.message import Message
from fastdist.distributed.rpc.message.types import MessageType

ONE, OTHER = MessageType.PYTHON_CALL, MessageType.SCRIPT_CALL


class Notes:
    """An interceptor that records its calls on a callee."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name, self.seen = name, seen

    def request_in(self, request: Message) -> None:
        self.seen.append(self.name)

    def response_out(self, answer: Message, request: Message) -> None:
        self.seen.append(f"{self.name} answers")


class OfOne(Notes):
    serves: Any = frozenset({ONE})


class OfAll(OfOne):
    serves = None  # all types, although the base class handles only some


@pytest.fixture
def seen() -> Iterator[list[str]]:
    before = dict(interceptors._installed)
    seen: list[str] = []
    names = interceptors.ORDER[:3]
    for name, kind in zip(names, (Notes, OfOne, OfAll), strict=True):
        interceptors.install(name, kind(kind.__name__, seen))
    yield seen
    for name in names:
        interceptors.remove(name)
        if name in before:
            interceptors.install(name, before[name])


@pytest.mark.parametrize(
    ("kind", "shown"), [(ONE, ["Notes", "OfOne", "OfAll"]), (OTHER, ["Notes", "OfAll"])]
)
def test_an_interceptor_is_shown_the_types_that_it_serves_or_all(
    seen: list[str], kind: MessageType, shown: list[str]
) -> None:
    request: Any = type("Request", (), {"type": kind})()
    interceptors.request_in(request)
    interceptors.response_out(request, request)
    # On arrival the interceptors run in reverse.
    assert seen == [*shown[::-1], *(f"{name} answers" for name in shown)]

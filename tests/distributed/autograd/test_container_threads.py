"""All threads that request the container get the same one, wherever they are interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import fastdist.distributed.autograd as da
from fastdist.core.errors import ContextError, ContextReleasedError
from tests.distributed.lives import life
from tests.disturbances.interleaving import Step, each_interleaving

WITHIN = ("distributed/autograd/container.py",)


@pytest.fixture(autouse=True)
def none_is_left() -> Iterator[None]:
    yield
    da._stop()


@pytest.mark.seed("C5", "C6")
def test_whoever_asks_first_begins_and_nobody_begins_again() -> None:
    ids: list[int] = []

    def begin() -> None:
        ids.append(da._init(3).new_autograd_message_id())

    def prepare() -> tuple[Step, Step]:
        da._stop(), ids.clear()
        return begin, begin

    for _ in each_interleaving(prepare, *WITHIN):
        assert len(set(ids)) == 2


@pytest.mark.seed("C5", "C6")
def test_of_two_worker_ids_one_counts() -> None:
    found: list[Any] = []

    def begin(worker_id: int) -> None:
        try:
            found.append(da._init(worker_id).worker_id)
        except ContextError as error:
            found.append(str(error))

    def prepare() -> tuple[Step, Step]:
        da._stop(), found.clear()
        return lambda: begin(3), lambda: begin(4)

    for _ in each_interleaving(prepare, *WITHIN):
        (won,) = [one for one in found if isinstance(one, int)]
        (text,) = [one for one in found if isinstance(one, str)]
        assert text.startswith(f"Container is already initialized with worker_id: {won}")
        assert da._init(won).worker_id == won


@pytest.mark.seed("C10", "C12")
def test_a_context_that_two_messages_bring_is_made_once() -> None:
    found: list[Any] = []

    def bring() -> None:
        found.append(da._init(3).get_or_create_context(5 << 48))

    def prepare() -> tuple[Step, Step]:
        da._stop(), da._init(3), found.clear()
        return bring, bring

    for _ in each_interleaving(prepare, *WITHIN):
        assert found[0] is found[1]


@pytest.mark.seed("C10", "C19")
@pytest.mark.parametrize("is_brought_first", [False, True])
def test_a_context_that_is_released_while_it_is_brought_does_not_come_back(
    is_brought_first: bool,
) -> None:
    def bring() -> None:
        try:
            da._init(3).get_or_create_context(5 << 48)
        except ContextReleasedError:
            return

    def release() -> None:
        da._init(3).release_context_if_present(5 << 48, notified_by=life(5))

    def prepare() -> tuple[Step, Step]:
        da._stop(), da._init(3)
        return (bring, release) if is_brought_first else (release, bring)

    for _ in each_interleaving(prepare, *WITHIN):
        assert da._get_debug_info()["num_autograd_contexts"] == 0
        with pytest.raises(ContextReleasedError):
            da._init(3).get_or_create_context(5 << 48)

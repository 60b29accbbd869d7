"""The end of one life of a worker does not affect the next life of its rank."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.core.errors import WorkerLostError
from fastdist.distributed.rpc.message.message import Message
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.distributed.rpc.references.forks import Forks
from fastdist.distributed.rpc.references.owned import OwnedValues
from fastdist.distributed.rpc.workers.record import in_words
from tests.distributed.lives import Life

RANK = 2
VALUE, FORK, LATER_FORK = RANK << 48 | 1, RANK << 48 | 2, RANK << 48 | 3


class Agent:
    """Knows the current life of one rank."""

    def __init__(self) -> None:
        self.lives: list[Any] = []
        self.next_life()

    def next_life(self) -> None:
        self.lives.append(Life(RANK))

    def find(self, rank: int) -> Any:
        assert rank == RANK
        return self.lives[-1]

    def in_words(self, rank: int) -> str:
        return in_words(self.find(rank))

    def find_life(self, rank: int, incarnation: object) -> Any:
        found = self.find(rank)
        return found if found.record.incarnation == incarnation else None


@pytest.fixture
def agent() -> Agent:
    return Agent()


def end_first_life_late(agent: Agent, values: OwnedValues) -> None:
    agent.lives[0].is_dead = True
    values.maker_lost(agent.lives[0])
    values.end_uses_of(agent.lives[0])


def test_what_the_next_life_holds_stays_when_the_end_of_the_former_is_told_late(
    agent: Agent,
) -> None:
    values = OwnedValues(agent)  # type: ignore[arg-type]
    owned = values.hear_of(VALUE)
    values.add_user(owned, FORK, agent.lives[0])
    values.complete(owned, "value")
    agent.next_life()
    values.add_user(owned, LATER_FORK, agent.lives[1])
    end_first_life_late(agent, values)
    assert values.values() == [owned] and [*owned.users] == [LATER_FORK]
    values.end_uses_of(agent.lives[1])
    assert values.values() == []


def test_what_the_next_life_has_made_is_not_said_to_be_lost_before_it_is_there(
    agent: Agent,
) -> None:
    values = OwnedValues(agent)  # type: ignore[arg-type]
    former = values.hear_of(VALUE)
    values.add_user(former, FORK, agent.lives[0])
    agent.next_life()
    owned = values.hear_of(VALUE + 10)
    values.add_user(owned, LATER_FORK, agent.lives[1])
    end_first_life_late(agent, values)
    assert isinstance(former.future.exception(), WorkerLostError)
    assert not owned.future.done()
    values.complete(owned, "value")
    assert owned.wait() == "value"


def test_a_value_that_is_taken_for_one_of_the_present_life_is_unborn_once_its_maker_is_said(
    agent: Agent,
) -> None:
    values = OwnedValues(agent)  # type: ignore[arg-type]
    former = agent.lives[0].record.incarnation
    agent.next_life()
    owned = values.hear_of(VALUE)
    values.fail_if_unborn(owned)
    assert not owned.future.done()
    assert values.hear_of(VALUE, former) is owned
    values.fail_if_unborn(owned)
    assert isinstance(owned.future.exception(), WorkerLostError)
    # Once a value's call has arrived, the value keeps its maker, whatever life is named later.
    values.begin(VALUE + 1, agent.lives[1])
    assert values.hear_of(VALUE + 1, former).maker is agent.lives[1]


def test_a_holder_that_is_dead_already_holds_nothing(agent: Agent) -> None:
    values = OwnedValues(agent)  # type: ignore[arg-type]
    owned = values.hear_of(VALUE)
    values.complete(owned, "value")
    owned = values.hear_of(VALUE + 1)
    agent.lives[0].is_dead = True
    values.add_user(owned, FORK, agent.lives[0])
    values.complete(owned, "value")
    assert values.values() == []


def test_calls_that_the_former_life_gave_up_are_not_those_of_the_next(agent: Agent) -> None:
    notice_sender: Any = SimpleNamespace(enqueue=lambda *note: None)
    forks = Forks(notice_sender, OwnedValues(agent), lambda fork_ids: [])  # type: ignore[arg-type]
    words: Any = {"call": (7,), "fork": (), "made": ()}
    former, later = Life(RANK), Life(RANK)
    forks.given_up(Message(0, peer=former, metadata=words))
    parent: Any = SimpleNamespace(_id=VALUE)
    for life, number in ((former, 0), (later, 1)):
        answer = Message(MessageType.PYTHON_RET, 7, peer=life)
        forks.leave(FORK, parent, answer)
        assert len(forks) == number

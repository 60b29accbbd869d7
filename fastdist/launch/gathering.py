"""How the node runs of one job find each other: a card from each, and what does not fit."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise

from fastdist.core.errors import RendezvousError, StoreError, StoreLostError, StoreTimeoutError
from fastdist.distributed.store import Store
from fastdist.distributed.store.wait_log import WaitLog
from fastdist.system.foreign_text import one_line

_PLACES = "fastdist/launch/place/"
_CARDS = "fastdist/launch/card/"
_TOLD = "fastdist/launch/told/"
_SAME = (("--nnodes", "nodes"), ("--max-restarts", "max_restarts"), ("--restart", "restart"))
_LOOK_S = 0.5
_TELL_S = 1.0


@dataclass(frozen=True)
class Card:
    """The description of one node run; `token` is new in each, so that two are never mistaken for
    one.
    """

    node: int
    nodes: int
    workers: int
    host: str
    # How often workers are started again, all or `worker`: one alone.
    max_restarts: int = 0
    restart: str = "group"
    token: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def name(self) -> str:
        """How messages speak of the node."""
        return f"node {self.node} ({one_line(self.host, 100)})"


def card_key(card: Card) -> str:
    """Return where a card lies in the store of its job."""
    return _CARDS + card.token


def gather(store: Store, mine: Card, line: WaitLog, is_closing: Callable[[], bool]) -> list[Card]:
    """Leave my card, and return those of all nodes, in order, when all have come.

    Raises  RendezvousError, on every node, where two do not fit together; StoreTimeoutError naming
            the nodes that did not come before the line's time is over
    """
    cards = {mine.token: mine}
    try:
        return _wait_for_all(store, mine, cards, line, is_closing)
    except StoreLostError as lost:
        # Its host may have waited longer than this node, and have given up.
        missing = _missing(cards, mine)
        if not missing:
            raise
        raise StoreTimeoutError(f"{_did_not_come(missing, mine, line)}; {lost}") from lost


def _wait_for_all(
    store: Store,
    mine: Card,
    cards: dict[str, Card],
    line: WaitLog,
    is_closing: Callable[[], bool],
) -> list[Card]:
    text = json.dumps(asdict(mine))
    # Only one of two can have the place; and all who still wait see both cards.
    holder = _read(store.compare_set(f"{_PLACES}{mine.node}", b"", text))
    store.set(card_key(mine), text)
    cards[holder.token] = holder
    with closing(store.watch(_CARDS)) as watch:
        while True:
            fault = find_fault(cards.values())
            if fault:
                _let_all_know(store, mine, cards)
                raise RendezvousError(fault)
            missing = _missing(cards, mine)
            if not missing:
                return sorted(cards.values(), key=lambda card: card.node)
            if is_closing():
                raise StoreError("the job has ended")
            if line.is_over:
                told = (_did_not_come(missing, mine, line), store.refused())
                raise StoreTimeoutError("; ".join(part for part in told if part))
            line.log_now_and_again(_name_nodes(missing, mine.nodes))
            change = watch.next(_LOOK_S)
            if change is not None and change.value is not None:
                card = _read(change.value)
                cards[card.token] = card


def find_fault(cards: Collection[Card]) -> str:
    """Return the settings that do not agree, naming the nodes; nothing if all do."""
    by_number = sorted(cards, key=lambda card: (card.node, card.host))
    for flag, what in _SAME:
        if len({getattr(card, what) for card in cards}) > 1:
            said = ", ".join(f"{card.name} {getattr(card, what)}" for card in by_number)
            return f"{flag} must be the same on every node, got {said}"
    for one, other in pairwise(by_number):
        if one.node == other.node:
            hosts = f"at {one_line(one.host, 100)} and at {one_line(other.host, 100)}"
            return (
                f"--node-rank {one.node} was given twice, {hosts}; give each node its own, from 0 "
                f"to {one.nodes - 1}"
            )
    return ""


def _read(text: bytes) -> Card:
    return Card(**json.loads(text))


def _name_nodes(nodes: Collection[int], count: int) -> str:
    shown = ", ".join(str(node) for node in sorted(nodes))
    return f"{'node' if len(nodes) == 1 else 'nodes'} {shown} of {count}"


def _missing(cards: dict[str, Card], mine: Card) -> set[int]:
    return set(range(mine.nodes)) - {card.node for card in cards.values()}


def _did_not_come(missing: Collection[int], mine: Card, line: WaitLog) -> str:
    return (
        f"{_name_nodes(missing, mine.nodes)} did not come within {line.waited_s:.0f} s; look for "
        "what ended `fastdist run` there, or never started it with this --master-addr"
    )


def _let_all_know(store: Store, mine: Card, cards: Collection[str]) -> None:
    """Let the others read of a fault before the node that serves the store ends it."""
    with suppress(StoreError):  # who was first to know may have ended it already
        store.set(_TOLD + mine.token, b"")
        store.wait([_TOLD + token for token in cards], _TELL_S)

"""How the launchers of a job's nodes find each other, and compare their settings."""

# Note [Membership]
# Each launcher publishes a card, the description of its node, in the store, and claims its node's
# place there. Node 0 decides which cards take part in a round, and publishes a record with these
# cards and the number of the round. If the number of nodes is fixed and there are no restarts, the
# first round needs no record: it begins when all cards have been published. A launcher that joins a
# running job waits until its node's place is free, and then for a record that contains its card.

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise

from fastdist.core.errors import RendezvousError, StoreError, StoreLostError, StoreTimeoutError
from fastdist.distributed.store import Store
from fastdist.distributed.store.wait_log import WaitLog
from fastdist.system.foreign_text import one_line

ROOT = "fastdist/launch/"
_PLACES = f"{ROOT}place/"
_MEET = f"{ROOT}meet/"
CARDS = f"{_MEET}card/"
MEMBERS = f"{_MEET}members"
_OVER = f"{_MEET}over"
BEATS = f"{ROOT}beat/"
_TOLD = f"{ROOT}told/"
_SAME = (("--nnodes", "nnodes"), ("--max-restarts", "max_restarts"), ("--restart", "restart"))
# The node number of a launcher that takes the first free place other than node 0's.
NO_PLACE = -1
_LOOK_S = 0.5
_TELL_S = 1.0
# How long to watch for the heartbeats of a launcher, which sends two per second.
_LIVES_S = 2.5


@dataclass(frozen=True)
class Card:
    """The description of one node, which its launcher publishes.

    `token` is random for each start of a launcher, so that two starts are never confused.
    """

    node: int
    nodes: int
    workers: int
    host: str
    # The greatest number of restarts: of all workers (`group`) or of a single one (`worker`).
    max_restarts: int = 0
    restart: str = "group"
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    # The smallest number of nodes; 0 means all of them.
    least_nodes: int = 0
    role: str = "default"
    # The first round in which the node can take part: 0, or a later one after a loss of node 0.
    first_round: int = 0

    @property
    def name(self) -> str:
        """The name of the node in messages."""
        return f"node {self.node} ({one_line(self.host, 100)})"

    @property
    def nnodes(self) -> str:
        """The value of --nnodes."""
        return f"{self.least}:{self.nodes}" if self.least < self.nodes else str(self.nodes)

    @property
    def least(self) -> int:
        """The smallest number of nodes with which the job can continue."""
        return self.least_nodes or self.nodes

    @property
    def is_flexible(self) -> bool:
        """Whether a later round may have other nodes than the one before."""
        return self.least < self.nodes or (self.max_restarts > 0 and self.restart == "group")

    @property
    def after_loss(self) -> str:
        """The end of a message about a lost node: why no node replaces it; may be empty."""
        if self.max_restarts == 0:
            return (
                "; the job ends: with --max-restarts N it would wait for another launcher to take "
                "its place"
            )
        if self.restart == "group":
            return ""
        return (
            f"; with --restart={self.restart} no machine takes its place and the job ends: "
            "--restart=group would wait for another launcher"
        )


def card_key(card: Card) -> str:
    """Return the key of a card in the job's store."""
    return CARDS + card.token


def place_key(card: Card) -> str:
    """Return the key of the card that holds a node's place."""
    return f"{_PLACES}{card.node}"


def card_text(card: Card) -> str:
    """Return a card as text for the store."""
    return json.dumps(asdict(card))


def read_card(text: bytes) -> Card:
    """Return the card from a text in the store."""
    return Card(**json.loads(text))


@dataclass(frozen=True)
class Members:
    """The nodes of one round, ordered by rank."""

    round: int
    cards: tuple[Card, ...]

    def as_text(self) -> str:
        """Return the record that node 0 publishes."""
        return json.dumps({"round": self.round, "cards": [asdict(card) for card in self.cards]})

    def has(self, card: Card) -> bool:
        """Return whether a launcher takes part in the round."""
        return any(card.token == one.token for one in self.cards)


def read_members(text: bytes) -> Members:
    """Return the record from a text in the store."""
    found = json.loads(text)
    return Members(found["round"], tuple(Card(**card) for card in found["cards"]))


class JobIsOverError(RendezvousError):
    """The job ended before this launcher could join it."""


def gather(
    store: Store,
    mine: Card,
    line: WaitLog,
    is_closing: Callable[[], bool],
    *,
    former: Card | None = None,
    more_s: float = 0.0,
) -> Members:
    """Publish the card `mine`, and return the nodes of the first round that contains it.

    `former` is the card of this launcher's earlier connection to the job. When there are enough
    nodes, node 0 waits `more_s` for more nodes.

    Raises  RendezvousError, on every node, if settings of two nodes do not agree; StoreTimeoutError
            with the nodes that did not join before the deadline of `line`
    """
    meeting = _Gathering(store, mine, line, is_closing, more_s)
    try:
        if mine.node == NO_PLACE:
            meeting.take_any_place()
        if mine.is_flexible and store.check([MEMBERS]):
            return meeting.join_running_job(former)
        return meeting.wait_for_all()
    except StoreLostError as lost:
        # The node that serves the store may have waited longer than this node, and have given up.
        missing = meeting.missing()
        if not missing:
            raise
        raise StoreTimeoutError(f"{meeting.did_not_come(missing)}; {lost}") from lost


class _Gathering:
    """The state of one launcher while nodes gather."""

    def __init__(
        self,
        store: Store,
        mine: Card,
        line: WaitLog,
        is_closing: Callable[[], bool],
        more_s: float,
    ) -> None:
        self._store, self._mine, self._line = store, mine, line
        self._is_closing, self._more_s = is_closing, more_s
        self._cards = {mine.token: mine}
        self._enough_at = 0.0
        self._beat = 0

    def wait_for_all(self) -> Members:
        store, mine = self._store, self._mine
        text = card_text(mine)
        # If two launchers claim one place, only one gets it. All waiting launchers see both cards,
        # so each of them detects the fault.
        holder = read_card(store.compare_set(place_key(mine), b"", text))
        store.set(card_key(mine), text)
        self._cards[holder.token] = holder
        with closing(store.watch(_MEET)) as watch:
            while True:
                fault = find_fault(self._cards.values())
                if fault:
                    _let_all_know(store, mine, self._cards)
                    raise RendezvousError(fault)
                missing = self.missing()
                if self._are_enough(missing):
                    return self._begin()
                if mine.is_flexible:
                    self._send_beat()
                self._require_time(missing)
                self._line.log_now_and_again(_name_nodes(missing, mine.nodes) or "node 0")
                change = watch.next(_LOOK_S)
                found = self._take(change) if change is not None else None
                if found is not None:
                    return found

    def _are_enough(self, missing: Collection[int]) -> bool:
        """Return whether this launcher may begin the round now, with the nodes that have joined."""
        mine, now = self._mine, time.monotonic()
        if mine.node != 0 and mine.is_flexible:
            return False
        if not missing:
            return True
        if mine.nodes - len(missing) < mine.least:
            self._enough_at = 0.0
            return False
        self._enough_at = self._enough_at or now
        return now >= self._enough_at + self._more_s or self._line.is_over

    def _begin(self) -> Members:
        cards = sorted(self._cards.values(), key=lambda card: card.node)
        members = Members(max(card.first_round for card in cards), tuple(cards))
        if self._mine.node == 0:
            self._store.set(MEMBERS, members.as_text())
        return members

    def take_any_place(self) -> None:
        """Claim the first free place, as soon as there is one."""
        while True:
            for node in range(1, self._mine.nodes):
                card = replace(self._mine, node=node)
                holder = self._store.compare_set(place_key(card), b"", card_text(card))
                if read_card(holder).token == card.token:
                    self._mine, self._cards = card, {card.token: card}
                    return
            if not self._mine.is_flexible:
                raise RendezvousError(
                    f"all {self._mine.nodes} places of nodes are taken: more launchers were "
                    "started than --nnodes says"
                )
            self._line.log_now_and_again("a free place: all are taken")
            if self._is_closing():
                raise StoreError("the job has ended")
            if self._store.check([_OVER]):
                raise JobIsOverError("the job has ended before it needed this node")
            with suppress(StoreTimeoutError):
                self._store.wait([_OVER], _LOOK_S)

    def join_running_job(self, former: Card | None) -> Members:
        """Wait for this node's place, and then for a round that contains this node."""
        store, mine = self._store, self._mine
        first = read_members(store.get(MEMBERS)).cards[0]
        if first.node != mine.node and (fault := find_fault([first, mine])):
            raise RendezvousError(fault)
        self._take_place(former)
        store.set(card_key(mine), card_text(mine))
        with closing(store.watch(_MEET)) as watch:
            while True:
                self._send_beat()
                if self._is_closing():
                    raise StoreError("the job has ended")
                self._line.log_now_and_again("the next restart of the job, which runs")
                change = watch.next(_LOOK_S)
                found = self._take(change) if change is not None else None
                if found is not None:
                    return found

    def _send_beat(self) -> None:
        self._beat += 1
        self._store.set(BEATS + self._mine.token, str(self._beat))

    def _take_place(self, former: Card | None) -> None:
        """Claim this node's place as soon as no live launcher holds it."""
        store, mine = self._store, self._mine
        text = card_text(mine)
        if former is not None:
            store.compare_set(place_key(mine), card_text(former), text)
        while not self._is_closing():
            holder = read_card(store.compare_set(place_key(mine), b"", text))
            if holder.token == mine.token:
                return
            if former is not None or self._lives(holder):
                raise RendezvousError(find_fault([holder, mine]))
            self._line.log_now_and_again(f"the loss of {holder.name}, whose place it takes")
        raise StoreError("the job has ended")

    def _lives(self, holder: Card) -> bool:
        """Watch the place's holder for a while, and return whether it still sends heartbeats."""
        beats: set[bytes] = set()
        until = time.monotonic() + _LIVES_S
        with closing(self._store.watch(BEATS + holder.token)) as watch:
            while time.monotonic() < until and not self._is_closing():
                change = watch.next(_LOOK_S)
                if change is not None and change.value is not None:
                    beats.add(change.value)
                    if len(beats) > 2:
                        return True
        return False

    def _take(self, change: tuple[str, bytes | None]) -> Members | None:
        key, value = change
        if value is None:
            self._cards.pop(key.removeprefix(CARDS), None)
        elif key == MEMBERS and self._mine.is_flexible:
            members = read_members(value)
            return members if members.has(self._mine) else None
        elif key == _OVER:
            raise JobIsOverError("the job has ended before it needed this node")
        elif key.startswith(CARDS):
            card = read_card(value)
            self._cards[card.token] = card
        return None

    def _require_time(self, missing: Collection[int]) -> None:
        if self._is_closing():
            raise StoreError("the job has ended")
        if self._line.is_over:
            # If no node is missing, node 0 has not published the nodes of the round.
            told = (self.did_not_come(missing or {0}), self._store.refused())
            raise StoreTimeoutError("; ".join(part for part in told if part))

    def missing(self) -> set[int]:
        return set(range(self._mine.nodes)) - {card.node for card in self._cards.values()}

    def did_not_come(self, missing: Collection[int]) -> str:
        return (
            f"{_name_nodes(missing, self._mine.nodes)} did not come within "
            f"{self._line.waited_s:.0f} s; look for what ended `fastdist run` there, or never "
            "started it with this --master-addr"
        )


def let_newcomers_know_of_end(store: Store) -> None:
    """End the launchers that wait to join the next round, because there is no next round."""
    with suppress(StoreError):
        store.set(_OVER, b"")


def free_place(store: Store, card: Card) -> None:
    """Release the place of a lost launcher, so that another one can take it."""
    store.delete_key(card_key(card))
    # Release the place only if no other launcher has taken it already.
    if store.compare_set(place_key(card), card_text(card), card_text(card)) == (
        card_text(card).encode()
    ):
        store.delete_key(place_key(card))


def find_fault(cards: Iterable[Card]) -> str:
    """Return the settings that differ between nodes, with the nodes' names; "" if all agree."""
    by_number = sorted(cards, key=lambda card: (card.node, card.host))
    for flag, what in _SAME:
        if len({getattr(card, what) for card in by_number}) > 1:
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


def renewed(card: Card, first_round: int) -> Card:
    """Return the card with which a launcher returns to a job after it lost the connection."""
    return replace(card, token=secrets.token_hex(8), first_round=first_round)


def _name_nodes(nodes: Collection[int], count: int) -> str:
    if not nodes:
        return ""
    shown = ", ".join(str(node) for node in sorted(nodes))
    return f"{'node' if len(nodes) == 1 else 'nodes'} {shown} of {count}"


def _let_all_know(store: Store, mine: Card, cards: Mapping[str, Card]) -> None:
    """Report a fault to the other nodes, before the node that serves the store ends the store."""
    # the node that found the fault first may have ended the store already
    with suppress(StoreError):
        store.set(_TOLD + mine.token, b"")
        store.wait([_TOLD + token for token in cards], _TELL_S)

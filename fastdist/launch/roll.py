"""The state of the nodes in a round: alive, ended or lost. Node 0 decides what follows."""

# Note [Rounds]
# A round starts all workers, and has ended on a node when all of the node's workers have ended.
# Each node stores its result under the round's number, and never changes it. When all results are
# stored, each node can decide alone whether the job is over. Only node 0 decides that the job
# continues, because node 0 must clear the list of ended ranks in the store before the first worker
# starts again. A node on which a Ctrl-C ended the workers takes part in no further round; then the
# other nodes do not continue either.

# Note [Lost nodes]
# Nodes write heartbeats to the store, and only node 0 reads them: it declares a node lost if the
# node was silent for too long. If the job may start again, the round ends on all nodes, and node 0
# waits for a launcher that takes the lost node's place. The next round begins as soon as the places
# of all lost nodes are taken. After the rejoin timeout, the round begins with the present nodes, if
# there are enough. The loss counts as one restart. The other nodes notice the loss of node 0
# because its store does not answer. They end their workers, and return with new cards when node 0,
# or another launcher in its place, serves the store again.

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Protocol

from fastdist.core.errors import StoreError
from fastdist.distributed.constants import PREEMPTED_EXIT_STATUS
from fastdist.distributed.store import Change, Store, TCPStore, Watch
from fastdist.launch.failure_text import what_was_raised
from fastdist.launch.gathering import (
    BEATS,
    CARDS,
    MEMBERS,
    ROOT,
    Card,
    Members,
    find_fault,
    free_place,
    let_newcomers_know_of_end,
    read_card,
    read_members,
)
from fastdist.launch.report import Failure
from fastdist.system.foreign_text import one_line

BEAT_S = 0.5
# A prefix of all keys that nodes other than node 0 must read.
NODES = f"{ROOT}node/"
_MEMBERS = f"{NODES}members"
_MOST_LETTERS = 300


@dataclass(frozen=True)
class End:
    """The end of a round on a node.

    `is_last` means that the node takes part in no further round. `hearsay` means that the node
    ended its workers because of another node's report. `is_hurried` is set after a Ctrl-C: the node
    does not wait for other nodes' ends.
    """

    status: int
    sentence: str
    hearsay: bool
    is_last: bool
    is_hurried: bool
    asked_by: int = 0

    @property
    def is_agreed(self) -> bool:
        """Whether the workers have ended as a signal requested."""
        return self.status in (0, PREEMPTED_EXIT_STATUS)


def end_of(failure: Failure | None, *, is_last: bool, is_hurried: bool = False) -> End:
    """Return the record with which other nodes are notified of a round's end on this node."""
    return End(
        status=0 if failure is None else failure.exit_status,
        sentence="" if failure is None else _with_error(failure),
        hearsay=failure is not None and failure.is_from_afar,
        is_last=is_last,
        is_hurried=is_hurried,
        asked_by=0 if failure is None else failure.asked_by,
    )


def _with_error(failure: Failure) -> str:
    """Return a failure's sentence with its error: other nodes do not have the worker's output."""
    raised = one_line(os.fsdecode(what_was_raised(failure.text)), _MOST_LETTERS)
    return f"{failure.sentence}: {raised}" if raised else failure.sentence


def ends_from(number: int, ends: Mapping[int, End]) -> list[End]:
    """Return the ends of a round and of later rounds."""
    return [end for other, end in ends.items() if other >= number]


class Meeting(Protocol):
    """The part of nodes.Meeting's interface that Roll uses."""

    card: Card
    members: Members
    round: int
    rejoin_s: float
    _lost_s: float
    _store: TCPStore | None
    _closing: threading.Event
    _host_has_ended: bool
    _own_ends: list[tuple[int, End]]
    _begun_ends: list[tuple[int, End]]
    _ends_elsewhere: dict[int, dict[int, End]]

    def name(self, node: int) -> str:
        """Return the name of a node in messages."""

    def plan_after_loss(self, node: int) -> str:
        """Describe the plan after the loss of a node; an empty text if the job ends."""

    def connect_again(self, lost: StoreError, until: float) -> None:
        """Connect to node 0's store again."""

    def _post(self, news: Failure | str | None, number: int = 0) -> None:
        """Send a failure, or a line to show, to the main thread."""

    def _pass_on_ends(self) -> None:
        """Write the ended workers of this node to the store."""

    def _tell_no_restarts(self) -> None:
        """Write to the store that the job ends."""

    def _may_follow(self, number: int, ends: Collection[End], *, is_lost: bool = False) -> bool:
        """Return whether another round follows a round with these ends."""

    def _begin_round(self, members: Members) -> None:
        """Begin the next round."""

    def _enter_round(self, members: Members) -> None:
        """Take part in a round that node 0 has begun."""


class DeclaredLostError(StoreError):
    """Node 0 declared this launcher lost, because it was cut off or stopped."""


class Roll:
    """The state of all nodes of a job: which are alive, which have ended, and which are lost.

    Thread  the meeting's second thread
    """

    def __init__(self, meeting: Meeting) -> None:
        self._meeting = meeting
        self._me = meeting.card
        self._is_host = self._me.node == 0
        self._lost_s = meeting._lost_s
        # Node -> round -> the end of the round on this node.
        self._ends = meeting._ends_elsewhere
        # Nodes that have left the job, including lost nodes if their loss ends the job.
        self._left: set[int] = set()
        # Lost nodes that may be replaced, with the deadline for a replacement.
        self._lost: dict[int, float] = {}
        self._beat = 0
        self._newcomers: dict[str, Card] = {}
        # The time of each launcher's last heartbeat, and events of launchers that do not take part
        # in a round yet.
        self._heard: dict[str, float] = {}
        self._early: list[Change] = []
        # When the store last accepted a heartbeat.
        self._reached = time.monotonic()
        self._first_round = meeting.round
        self._enter(meeting.members)

    def keep(self) -> None:
        """Send heartbeats and read events until all nodes have ended, reconnecting if necessary."""
        while True:
            store = self._meeting._store
            assert store is not None
            try:
                # Only node 0 reads heartbeats and cards.
                with closing(store.watch(ROOT if self._is_host else NODES)) as watch:
                    self._keep_by(store, watch)
                return
            except DeclaredLostError:
                raise
            except StoreError as error:
                self._meeting.connect_again(error, self._reached + self._lost_s)

    def _enter(self, members: Members) -> None:
        now = time.monotonic()
        self._cards = {card.token: card for card in members.cards}
        self._others = {card.node for card in members.cards} - {self._me.node}
        self._heard = dict.fromkeys(self._cards, now)
        for gone in self._ends.keys() - self._others:
            del self._ends[gone]
        for node in self._others:
            self._ends.setdefault(node, {})
        self._lost.clear()
        for token in self._cards:
            self._newcomers.pop(token, None)
        early, self._early = self._early, []
        for change in early:
            self._take(change)

    def _keep_by(self, store: Store, watch: Watch) -> None:
        told = told_begun = 0
        mine = f"{NODES}{self._me.token}/"
        while not self._meeting._closing.is_set():
            self._beat += 1
            store.set(BEATS + self._me.token, str(self._beat))
            self._reached = time.monotonic()
            # Ends are read first: the store must get ended ranks before the round's end.
            own = [one for one in self._meeting._own_ends if one[0] >= self._first_round]
            self._meeting._pass_on_ends()
            begun = [one for one in self._meeting._begun_ends if one[0] >= self._first_round]
            if begun[told_begun:]:
                self._meeting._tell_no_restarts()
            for number, end in begun[told_begun:]:
                store.set(f"{mine}begins/{number}", json.dumps(asdict(end)))
            told_begun = len(begun)
            for number, end in own[told:]:
                store.set(f"{mine}end/{number}", json.dumps(asdict(end)))
            told = len(own)
            is_hurried = bool(own) and own[-1][1].is_hurried
            if not is_hurried:
                self._listen(watch, time.monotonic() + BEAT_S)
                if self._is_host:
                    self._look_for_the_lost(store)
            if is_hurried or (told and self._is_over_after(*own[-1], store)):
                if self._is_host:
                    let_newcomers_know_of_end(store)
                store.set(f"{mine}left", b"")
                self._wait_for_others_to_leave(watch)
                return

    def _is_over_after(self, number: int, mine: End, store: Store) -> bool:
        """Return whether the job is over after this node's end of a round. If it is not over, node
        0 begins the next round.
        """
        if number < self._meeting.round or not all(map(self._has_ended, self._others)):
            return False
        ends = [mine, *(end for ended in self._ends.values() for end in ends_from(number, ended))]
        if self._left or not self._meeting._may_follow(number, ends, is_lost=bool(self._lost)):
            return True
        if not self._is_host:
            return False
        return self._is_over_without_the_lost(number, store)

    def _is_over_without_the_lost(self, number: int, store: Store) -> bool:
        """Return whether the job is over because too few nodes are left. Otherwise begin the next
        round, when the places of lost nodes are taken or the deadline has passed.
        """
        there = [card for card in self._cards.values() if card.node not in self._lost]
        taken = {card.node for card in there}
        for card in sorted(self._newcomers.values(), key=lambda card: card.node):
            if card.node not in taken and self._lives(card):
                there.append(card)
                taken.add(card.node)
        missing = len(self._cards) - len(there)
        if missing > 0 and time.monotonic() < max(self._lost.values(), default=0.0):
            return False
        if len(there) < self._me.least:
            lost = ", ".join(map(str, sorted(self._lost)))
            self._end_all(
                store,
                f"no launcher took the place of node {lost} within "
                f"{self._meeting.rejoin_s:.0f} s, and a job of --nnodes {self._me.nnodes} cannot "
                f"go on with {len(there)}",
            )
            return True
        cards = tuple(sorted(there, key=lambda card: card.node))
        self._meeting._begin_round(Members(number + 1, cards))
        text = self._meeting.members.as_text()
        store.multi_set([MEMBERS, _MEMBERS], [text, text])
        self._enter(self._meeting.members)
        return False

    def _end_all(self, store: Store, sentence: str) -> None:
        """End the job here and on the other nodes, because nodes are missing."""
        store.set(f"{NODES}{self._me.token}/gives_up", sentence)
        self._meeting._post(Failure(sentence, 1, is_final=True))

    def _lives(self, card: Card) -> bool:
        return time.monotonic() - self._heard.get(card.token, 0.0) < self._lost_s

    def _has_ended(self, node: int) -> bool:
        gone = node in self._left or node in self._lost
        return gone or bool(ends_from(self._meeting.round, self._ends[node]))

    def _listen(self, watch: Watch, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            change = watch.next(left)
            if change is not None:
                self._take(change)

    def _take(self, change: Change) -> None:
        key, value = change
        if value is None:
            self._newcomers.pop(key.removeprefix(CARDS), None)
        elif key.startswith(BEATS):
            self._heard[key.removeprefix(BEATS)] = time.monotonic()
        elif key.startswith(CARDS):
            self._take_card(read_card(value))
        elif key == _MEMBERS:
            self._take_members(read_members(value))
        elif key.startswith(NODES):
            token, _, what = key.removeprefix(NODES).partition("/")
            if token not in self._cards:
                self._early.append(change)
            else:
                self._take_event(self._cards[token], what, value)

    def _take_event(self, card: Card, what: str, value: bytes) -> None:
        self._heard[card.token] = time.monotonic()
        if what == "lost":
            self._take_loss(card, json.loads(value))
        elif card.token == self._me.token:
            return
        elif what == "left":
            self._left.add(card.node)
        elif what == "gone":
            self._lose(card, value.decode(errors="replace"))
        elif what == "gives_up":
            self._meeting._post(Failure(value.decode(errors="replace"), 1, is_final=True))
        elif what.startswith("begins/"):
            number, end = int(what.removeprefix("begins/")), End(**json.loads(value))
            if number >= self._meeting.round:
                self._post_failure(card.node, number, end)
        elif what.startswith("end/"):
            self._take_end(card.node, int(what.removeprefix("end/")), End(**json.loads(value)))

    def _take_card(self, card: Card) -> None:
        """Store the card of a launcher that waits for a round."""
        if card.token not in self._cards and not find_fault([self._me, card]):
            self._newcomers[card.token] = card
            self._heard.setdefault(card.token, time.monotonic())

    def _take_members(self, members: Members) -> None:
        if self._is_host or members.round <= self._meeting.round:
            return
        if not members.has(self._me):
            raise DeclaredLostError("node 0 began a round without this node")
        self._meeting._enter_round(members)
        self._enter(members)

    def _take_end(self, node: int, number: int, end: End) -> None:
        if number in self._ends[node] or number < self._meeting.round:
            return  # received again through another connection
        self._ends[node][number] = end
        if node == 0:
            # Node 0's store may disappear at any time now, which is not an error.
            self._meeting._host_has_ended = True
        if end.status != 0:
            self._post_failure(node, number, end)

    def _post_failure(self, node: int, number: int, end: End) -> None:
        failure = Failure(
            f"{self._meeting.name(node)} ended: {one_line(end.sentence)}",
            end.status,
            was_asked=end.asked_by != 0,
            asked_by=end.asked_by,
            source=f"{node}/{number}",
            is_from_afar=True,
            is_hearsay=end.hearsay,
            is_final=end.is_last,
        )
        self._meeting._post(failure, number)

    def _look_for_the_lost(self, store: Store) -> None:
        now = time.monotonic()
        for card in list(self._cards.values()):
            silent_s = now - self._heard[card.token]
            is_other = card.token != self._me.token
            if is_other and silent_s > self._lost_s and not self._has_ended(card.node):
                self._lose(card, f"not heard for {silent_s:.0f} s")

    def _lose(self, card: Card, why: str) -> None:
        """On node 0, declare another node lost."""
        store = self._meeting._store
        if not self._is_host or store is None or card.node in self._lost:
            return
        sentence = f"{card.name} was lost: {one_line(why)}"
        plan = self._meeting.plan_after_loss(card.node)
        if plan:
            self._lost[card.node] = time.monotonic() + self._meeting.rejoin_s
        else:
            self._left.add(card.node)
            sentence += self._me.after_loss
        loss = {"sentence": sentence, "plan": plan}
        store.set(f"{NODES}{card.token}/lost", json.dumps(loss))
        if plan:
            free_place(store, card)
        self._report_loss(loss)

    def _take_loss(self, card: Card, loss: dict[str, str]) -> None:
        """On a node other than node 0, record a loss that node 0 has declared."""
        if self._is_host or card.node in self._lost or card.node in self._left:
            return
        if card.token == self._me.token:
            raise DeclaredLostError(f"this node was cut off or stopped: {loss['sentence']}")
        if loss["plan"]:
            self._lost[card.node] = 0.0
        else:
            self._left.add(card.node)
        self._report_loss(loss)

    def _report_loss(self, loss: dict[str, str]) -> None:
        sentence, plan = loss["sentence"], loss["plan"]
        if plan:
            self._meeting._post(f"fastdist: {sentence}; {plan}")
        self._meeting._post(Failure(sentence, 1, is_final=not plan))

    def _wait_for_others_to_leave(self, watch: Watch) -> None:
        """Keep the store available for a short time, if this node hosts it."""
        until = time.monotonic() + self._lost_s
        while self._is_host and not self._have_left() and time.monotonic() < until:
            self._listen(watch, min(until, time.monotonic() + BEAT_S))

    def _have_left(self) -> bool:
        gone: Collection[int] = self._left | self._lost.keys()
        return self._others.issubset(gone)

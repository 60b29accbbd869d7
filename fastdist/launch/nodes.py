"""The launchers of a job's nodes: their rendezvous, their messages, and lost nodes."""

from __future__ import annotations

import io
import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import TypeAlias

from fastdist.core.errors import (
    FastdistError,
    RendezvousError,
    StoreAddressError,
    StoreError,
)
from fastdist.distributed.constants import PREEMPTED_EXIT_STATUS
from fastdist.distributed.restarts import ENDED, NO_RESTARTS
from fastdist.distributed.sockets import JobSecret
from fastdist.distributed.sockets.addresses import require_own_address
from fastdist.distributed.sockets.liveness_timeouts import FROZEN_S, frozen_s
from fastdist.distributed.store import TCPStore, host_store
from fastdist.distributed.store.wait_log import WaitLog
from fastdist.launch.environment import Place
from fastdist.launch.gathering import (
    MEMBERS,
    NO_PLACE,
    Card,
    JobIsOverError,
    Members,
    card_key,
    gather,
    renewed,
)
from fastdist.launch.job_address import leave_address
from fastdist.launch.job_folder import JobFolder
from fastdist.launch.lost_workers import LostWorker, LostWorkers
from fastdist.launch.monitor import MonitorRelay
from fastdist.launch.options import LaunchOptions
from fastdist.launch.report import Failure
from fastdist.launch.roll import BEAT_S, DeclaredLostError, End, Roll, end_of, ends_from
from fastdist.launch.store_connector import ASK_S, StoreConnector

__all__ = ["BEAT_S", "LOST_S", "Meeting", "News"]

# If the launcher that hosts the store is killed, the others detect it immediately, because nothing
# listens on the store's port. The loss of any other launcher is detected by its silence. Workers
# wait for a peer for the same time while a network is down: launchers with a shorter timeout would
# end a job that could continue.
LOST_S = FROZEN_S
_CLOSE_S = 2.0
_LOOK_S = 0.05
# A failure on another node, a worker that was declared lost, or a line to show.
News: TypeAlias = Failure | LostWorker | str
_THREAD_NAME = "fastdist-launch-nodes"


class Meeting:
    """This node's place in the job, and its connection to the job's store, which node 0 hosts.

    `place` is None until all nodes have joined. `fileno` and `take` give messages from the nodes.
    `round` is the last round that may begin. Node 0 begins another round when all nodes have ended
    the last round and no node has left. See Note [Rounds] in roll.py.
    Thread  only `_serve` uses the store; all other methods belong to the main thread
    """

    def __init__(self, options: LaunchOptions, secret: JobSecret | None) -> None:
        self.place: Place | None = None
        self.round = 0
        self._begun = 0
        self._options = options
        self._secret = secret
        self._store: TCPStore | None = None
        self._port = options.master_port or 0
        # Other threads append, the main thread removes; a deque is safe for that without a lock.
        self._news: deque[tuple[int, News]] = deque()
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        node = options.node_rank
        if node is None:
            node = 0 if self._hosts_at_own_address() else NO_PLACE
        elif node == 0:
            self._host_store()
        # Ranks of this node's ended workers; the main thread appends, `_serve` removes.
        self._ended_ranks: deque[int] = deque()
        self._lost_s = _patience_s()
        # (round, end) for each round that has ended on this node; the main thread appends.
        self._own_ends: list[tuple[int, End]] = []
        # (round, end) to report when workers of this node are signalled; the main thread appends.
        self._begun_ends: list[tuple[int, End]] = []
        # Maps a node and a round to the end of the round on that node; `_serve` adds entries.
        self._ends_elsewhere: dict[int, dict[int, End]] = {}
        self._host_has_ended = False
        self._closing = threading.Event()
        self._store_connector = StoreConnector(
            options.master_address, self._port, secret, self._closing
        )
        self._is_over = threading.Event()
        self.rejoin_s = options.rejoin_timeout_s
        self.card = Card(
            node,
            options.nodes,
            options.workers_per_node,
            options.local_address or socket.gethostname(),
            max_restarts=options.max_restarts,
            restart=options.restart,
            least_nodes=options.least_nodes,
            role=options.role,
        )
        # The nodes of the last round that may begin.
        self.members = Members(0, ())
        self._thread: threading.Thread | None = None
        self._lost_workers: LostWorkers | None = None
        if options.comebacks:
            self._lost_workers = LostWorkers(lambda: self._store, self._post, self._closing)
        self._relay: MonitorRelay | None = None
        if options.nodes == 1:
            self.members = Members(0, (self.card,))
            self.place = self._place_among(self.members.cards)
            assert self._store is not None
            self._store.set(MEMBERS, self.members.as_text())
            self._is_over.set()
            return
        self._thread = threading.Thread(target=self._serve, name=_THREAD_NAME, daemon=True)
        self._thread.start()

    def _host_store(self, *, closes: bool = True) -> None:
        try:
            self._store, self._port = host_store(
                self._options.master_address,
                self._port,
                secret=self._secret,
                timeout=ASK_S,
                tell=self._tell_of_refusal,
            )
        except BaseException:
            if closes:
                os.close(self._read_fd)
                os.close(self._write_fd)
            raise

    def _hosts_at_own_address(self) -> bool:
        """Host the store if this machine has its address, and no other launcher hosts it yet."""
        try:
            require_own_address("--rdzv-endpoint", self._options.master_address)
        except RendezvousError:
            return False
        try:
            self._host_store(closes=False)
        except StoreAddressError:
            return False
        return True

    def _tell_of_refusal(self, level: int, line: str) -> None:
        # Refused port scanners and health checks are of interest only while a node is missing.
        if level >= logging.WARNING or self.place is None:
            self._post(f"fastdist: {line}")

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are messages."""
        return self._read_fd

    def take(self) -> list[News]:
        """Return the messages since the last call: failures, lost workers, and lines to show.

        Messages about a later round are kept until the round begins here, unless they end the job.
        """
        try:
            os.read(self._read_fd, 4096)
        except BlockingIOError:
            return []
        waiting = [self._news.popleft() for _ in range(len(self._news))]
        taken: list[News] = []
        for number, news in waiting:
            is_final = isinstance(news, Failure) and news.is_final
            if number <= self._begun or is_final:
                taken.append(news)
            else:
                self._news.append((number, news))
        return taken

    def begin(self, number: int) -> None:
        """Begin a round on this node, and queue the failures that were reported for the round."""
        self._begun = number
        self._post(None)

    @property
    def is_over(self) -> bool:
        """Return whether all nodes have ended or are lost, and each has been notified of this."""
        return self._is_over.is_set()

    def let_others_look(self, folder: JobFolder) -> None:
        """Answer `fastdist top` with readings of this node's workers, through socket files in
        `folder`.
        """
        if self.card.node == 0:
            leave_address(folder, self._options.master_address, self._port)
        self._relay = MonitorRelay(
            folder.path, lambda: self._store, lambda: self.place, self._closing
        )

    def tell_ended(self, rank: int) -> None:
        """Report an ended worker of this node to the store within BEAT_S, so that no worker waits
        for it.
        """
        self._ended_ranks.append(rank)
        if self._thread is None:
            with suppress(StoreError):  # the waiting workers then use their timeouts
                self._pass_on_ends()

    def _pass_on_ends(self) -> None:
        store, place = self._store, self.place
        assert store is not None and place is not None
        while self._ended_ranks:
            store.tell_ended(self._ended_ranks[0], place.world_size)
            if self._options.comebacks:
                store.set(f"{ENDED}{self._ended_ranks[0]}", b"")
            self._ended_ranks.popleft()

    def others_have_ended(self, rank: int, ended: Collection[int]) -> bool:
        """Return whether there are ranks other than `rank`, and all their workers have ended well.

        `ended` has the ended ranks of this node; the store has the ended ranks of other nodes.
        """
        store, place = self._store, self.place
        assert store is not None and place is not None
        others = set(range(place.world_size)) - {rank}
        asked = [f"{ENDED}{other}" for other in sorted(others.difference(ended))]
        try:
            return bool(others) and (not asked or store.check(asked))
        except StoreError:
            return False

    def tell_begin_of_end(self, failure: Failure) -> None:
        """Report a failure to the other nodes within BEAT_S, so that they end their workers as
        well.
        """
        if self._thread is None:
            self._tell_no_restarts()
        if not failure.is_from_afar:
            is_last = failure.is_final or failure.was_asked
            self._begun_ends.append((self._begun, end_of(failure, is_last=is_last)))

    def _tell_no_restarts(self) -> None:
        """Record that lost workers will not return, so that no shutdown waits for these workers."""
        if self._options.comebacks and self._store is not None:
            with suppress(StoreError):  # the waiting workers then use their timeouts
                self._store.set(NO_RESTARTS, b"")

    def tell_end(
        self, number: int, failure: Failure | None, *, is_last: bool, is_hurried: bool
    ) -> None:
        """Report the end of a round on this node to the other nodes, within BEAT_S."""
        end = end_of(failure, is_last=is_last, is_hurried=is_hurried)
        self._own_ends.append((number, end))
        if self._thread is None and self._may_follow(number, [end]):
            self._begin_round(Members(number + 1, self.members.cards))

    def others_ended_well(self, number: int) -> bool:
        """Return whether all other nodes have ended this round, or a later round, and all of their
        workers have ended well.
        """
        others = {card.node for card in self.members.cards} - {self.card.node}
        ends = [ends_from(number, self._ends_elsewhere.get(node, {})) for node in others]
        return all(ended and all(end.is_agreed for end in ended) for ended in ends)

    def others_requeue(self, number: int) -> bool:
        """Return whether workers of another node request a later start of the job."""
        ends = [end for ended in self._ends_elsewhere.values() for end in ends_from(number, ended)]
        return any(end.status == PREEMPTED_EXIT_STATUS for end in ends)

    def _may_follow(self, number: int, ends: Collection[End], *, is_lost: bool = False) -> bool:
        """Return whether another round follows a round that ended with `ends` on the nodes."""
        has_failed = is_lost or any(end.status != 0 for end in ends)
        is_last = number >= self._options.rounds_to_follow or any(end.is_last for end in ends)
        return has_failed and not is_last

    def _begin_round(self, members: Members) -> None:
        """Begin the next round, on the node that hosts the store."""
        assert self._store is not None
        self._store.begin_round()
        self._enter_round(members)

    def _enter_round(self, members: Members) -> None:
        """Take this node's place in a round."""
        before = self.members.cards
        self.members = members
        self.place = self._place_among(members.cards)
        self.round = members.round
        self._host_has_ended = False
        if before:
            self._report_change(before, members.cards)
        self._post(None)

    def _report_change(self, before: Sequence[Card], now: Sequence[Card]) -> None:
        tokens = {card.token for card in before}, {card.token for card in now}
        came = [card.name for card in now if card.token not in tokens[0] | {self.card.token}]
        gone = [card.name for card in before if card.token not in tokens[1]]
        gone = [name for name in gone if name not in came and name != self.card.name]
        changes = [f"with {', '.join(came)}"] if came else []
        changes += [f"without {', '.join(gone)}"] if gone else []
        if changes:
            counts = {"node": len(now), "worker": sum(card.workers for card in now)}
            size = ", ".join(f"{n} {what}{'s' * (n != 1)}" for what, n in counts.items())
            self._post(f"fastdist: the job goes on {' and '.join(changes)} ({size})")

    def plan_after_loss(self, node: int) -> str:
        """Describe the plan after the loss of a node; an empty text if the job ends."""
        said = [*self._own_ends, *self._begun_ends]
        is_last = any(end.is_last for number, end in said if number >= self.round)
        if not self.card.is_flexible or is_last or self.round >= self._options.rounds_to_follow:
            return ""
        fewer = ""
        if node != 0 and len(self.members.cards) > self.card.least:
            fewer = ", then going on without it"
        return (
            f"waiting up to {self.rejoin_s:.0f} s for a launcher with --node-rank {node} to take "
            f"its place{fewer}; restart {self.round + 1} of {self._options.rounds_to_follow}"
        )

    def close(self) -> None:
        """End the threads, and close the store, or the connection to the store."""
        self._closing.set()
        store = self._store
        if store is not None:
            store.close()
        if self._lost_workers is not None:
            self._lost_workers.join()
        if self._relay is not None:
            self._relay.join()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
        os.close(self._read_fd)
        os.close(self._write_fd)

    def _place_among(self, cards: Sequence[Card]) -> Place:
        options = self._options
        local_address = options.local_address
        if local_address is None and options.nodes == 1:
            local_address = options.master_address
        index = next(i for i, card in enumerate(cards) if card.token == self.card.token)
        same_role = [card for card in cards if card.role == self.card.role]
        return Place(
            first_rank=sum(card.workers for card in cards[:index]),
            world_size=sum(card.workers for card in cards),
            node_rank=index,
            local_world_size=options.workers_per_node,
            master_address=options.master_address,
            master_port=self._port,
            local_address=local_address,
            nodes=len(cards),
            role=self.card.role,
            first_role_rank=sum(c.workers for c in cards[:index] if c.role == self.card.role),
            role_world_size=sum(card.workers for card in same_role),
        )

    def _post(self, news: News | None, number: int = 0) -> None:
        if news is not None:
            self._news.append((number, news))
        os.write(self._write_fd, b"!")

    def _serve(self) -> None:
        try:
            self._join()
            while True:
                try:
                    Roll(self).keep()
                    break
                except StoreError as error:
                    self._come_back(error)
        except JobIsOverError as error:
            self._post(Failure(f"{self._own_name} was not needed: {error}", 0, is_final=True))
        except Exception as error:  # any error: the main thread waits for the message
            if not self._closing.is_set() and not self._host_has_ended:
                self._post(Failure(self._what_failed(error), 1, is_final=True))
        self._is_over.set()
        if not self._closing.is_set():
            self._post(None)

    def _what_failed(self, error: Exception) -> str:
        if not isinstance(error, FastdistError):
            return f"a bug in fastdist: {error!r}"
        if self.place is None:
            return f"{self._own_name} could not join the job: {error}"
        if isinstance(error, DeclaredLostError):
            return f"{self._own_name} was lost: {error}"
        return f"{self.name(0)} was lost: {error}{self.card.after_loss}"

    @property
    def _own_name(self) -> str:
        return "this node" if self.card.node == NO_PLACE else f"node {self.card.node}"

    def name(self, node: int) -> str:
        """Return the name of a node in messages."""
        return next((card.name for card in self.members.cards if card.node == node), f"node {node}")

    def _join(self) -> None:
        lines = _Lines(self._post)
        with WaitLog(self._own_name, self._options.init_timeout_s, lines) as line:
            store = self._store = self._store or self._store_connector.find(line)
            closing = self._closing.is_set
            members = gather(store, self.card, line, closing, more_s=self.rejoin_s)
        self.card = next(card for card in members.cards if card.token == self.card.token)
        self._enter_round(members)

    def _come_back(self, error: StoreError) -> None:
        """Join the job again after node 0, or another launcher in its place, has restarted it.

        Raises  `error`, or the reason why this node cannot join: in both cases the job is over
        """
        plan = "" if self._host_has_ended else self.plan_after_loss(0)
        if self.card.node == 0 or not plan or self._closing.is_set():
            raise error
        sentence = self._what_failed(error)
        self._post(f"fastdist: {sentence}; {plan}")
        number = self.round
        self._post(Failure(sentence, 1))
        while not any(ended >= number for ended, _ in self._own_ends):
            if self._closing.wait(_LOOK_S):
                raise error
        if not self.plan_after_loss(0):
            raise error
        assert self._store is not None
        self._store.close()
        former, self.card = self.card, renewed(self.card, number + 1)
        who, lines = f"node {self.card.node}", _Lines(self._post)
        with WaitLog(who, self.rejoin_s, lines) as line:
            self._store = self._store_connector.find(line)
        with WaitLog(who, self._options.init_timeout_s, lines) as line:
            closing = self._closing.is_set
            members = gather(self._store, self.card, line, closing, former=former)
        self._ends_elsewhere.clear()
        self._enter_round(members)

    def connect_again(self, lost: StoreError, until: float) -> None:
        """Reconnect to node 0's store if only the connection was cut.

        Raises  `lost` if nothing listens on the port any more, or if the deadline has passed
        """
        if self.card.node == 0 or self._store is None:
            raise lost
        self._store.close()
        self._store = self._store_connector.find_again(card_key(self.card), lost, until)


def _patience_s() -> float:
    """Return how long another node may be silent: as long as workers wait for a peer."""
    try:
        return frozen_s(default=LOST_S)
    except ValueError as error:
        raise RendezvousError(str(error)) from error


class _Lines(io.StringIO):
    """A WaitLog's output stream, whose text is passed on line by line."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__()
        self._show = show

    def write(self, text: str) -> int:
        self._show(text.rstrip("\n"))
        return len(text)

"""The node runs of one job: their rendezvous, their messages, and the nodes that are lost."""

from __future__ import annotations

import io
import json
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from typing import TypeAlias

from fastdist.core.errors import FastdistError, RendezvousError, StoreError
from fastdist.distributed.constants import PREEMPTED_EXIT_STATUS
from fastdist.distributed.restarts import ENDED, NO_RESTARTS
from fastdist.distributed.sockets import JobSecret
from fastdist.distributed.sockets.liveness_timeouts import FROZEN_S, frozen_s
from fastdist.distributed.store import Change, Store, TCPStore, Watch, host_store
from fastdist.distributed.store.wait_log import WaitLog
from fastdist.launch.environment import Place
from fastdist.launch.gathering import Card, card_key, gather
from fastdist.launch.lost_workers import LostWorker, LostWorkers
from fastdist.launch.options import LaunchOptions
from fastdist.launch.report import Failure
from fastdist.launch.store_connector import ASK_S, StoreConnector
from fastdist.system.foreign_text import one_line

# A launcher that was killed is detected at once where it hosted the store, because nothing listens
# at its port any more; any other is detected by its silence. Workers wait as long for a peer while
# a network is down: launchers with a shorter timeout would end a job that goes on.
BEAT_S = 0.5
LOST_S = FROZEN_S
_CLOSE_S = 2.0
_PREFIX = "fastdist/launch/node/"
# A failure on another node, a worker that was declared lost, or a line to be shown.
News: TypeAlias = Failure | LostWorker | str
_THREAD_NAME = "fastdist-launch-nodes"


@dataclass(frozen=True)
class End:
    """How the workers of a node have ended in one round.

    `is_last` where that node takes part in no other round; `hearsay` where it ended because of what
    another one told. After a Ctrl-C it `is_hurried`, and does not wait to learn how others end.
    """

    status: int
    sentence: str
    hearsay: bool
    is_last: bool
    is_hurried: bool
    asked_by: int = 0


class Meeting:
    """This node's place in the job, and its store, hosted where the node is the first.

    `place` is None until all nodes have joined. News of them comes through `fileno` and `take`.
    `round` is the last one that may begin: a next one does when all nodes have ended the one before
    and none has gone, as node 0 finds. See Note [Rounds].
    Thread  `_serve` alone talks with the store; all else is the main thread's
    """

    def __init__(self, options: LaunchOptions, secret: JobSecret | None) -> None:
        self.place: Place | None = None
        self.round = 0
        self._begun = 0
        self._options = options
        self._secret = secret
        self._store: TCPStore | None = None
        self._port = options.master_port or 0
        # Appended by other threads, taken by the main one; a deque is safe for that without a lock.
        self._news: deque[tuple[int, News]] = deque()
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        if options.node_rank == 0:
            self._host_store()
        # Ended ranks of workers here; appended by the main thread, taken by the other one.
        self._ended_ranks: deque[int] = deque()
        self._lost_s = _patience_s()
        # By round; the main thread adds to it.
        self._own_ends: list[tuple[int, End]] = []
        # Failures, by round, that are reported as soon as workers here are signalled; likewise.
        self._begun_ends: list[tuple[int, End]] = []
        # By node and round; the other thread adds to it.
        self._ends_elsewhere: dict[int, dict[int, End]] = {}
        self._host_has_ended = False
        self._closing = threading.Event()
        self._store_connector = StoreConnector(
            options.master_address, self._port, secret, self._closing
        )
        self._is_over = threading.Event()
        self._cards: list[Card] = []
        self._thread: threading.Thread | None = None
        self._lost_workers: LostWorkers | None = None
        if options.comebacks:
            self._lost_workers = LostWorkers(lambda: self._store, self._post, self._closing)
        if options.nodes == 1:
            self.place = self._place_among([options.workers_per_node])
            self._is_over.set()
            return
        self._thread = threading.Thread(target=self._serve, name=_THREAD_NAME, daemon=True)
        self._thread.start()

    def _host_store(self) -> None:
        try:
            self._store, self._port = host_store(
                self._options.master_address,
                self._port,
                secret=self._secret,
                timeout=ASK_S,
                tell=self._tell_of_refusal,
            )
        except BaseException:
            os.close(self._read_fd)
            os.close(self._write_fd)
            raise

    def _tell_of_refusal(self, level: int, line: str) -> None:
        # Port scanners and health checks matter as long as a node is waited for.
        if level >= logging.WARNING or self.place is None:
            self._post(f"fastdist: {line}")

    def fileno(self) -> int:
        """Readable while something has happened."""
        return self._read_fd

    def take(self) -> list[News]:
        """Return the failures on other nodes since the last call, and lines to show.

        Messages of a round that has not begun here are kept for it, unless they end the job.
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
        """Take part in a round, and receive the failures that it already has."""
        self._begun = number
        self._post(None)

    @property
    def is_over(self) -> bool:
        """Say whether every node has ended or is lost, and knows it of the others."""
        return self._is_over.is_set()

    def tell_ended(self, rank: int) -> None:
        """Let no worker wait for one of this node that has ended; the store knows within BEAT_S."""
        self._ended_ranks.append(rank)
        if self._thread is None:
            with suppress(StoreError):  # then they wait as long as they would anyway
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
        """Say whether there are other ranks, and the workers of all have ended well.

        `ended` are ranks of this node that have ended; the store has those of the others.
        """
        store, place = self._store, self.place
        assert store is not None and place is not None
        others = set(range(place.world_size)) - {rank}
        asked = [f"{ENDED}{other}" for other in sorted(others.difference(ended))]
        try:
            return bool(others) and (not asked or store.check(asked))
        except StoreError:
            return False

    def tell_begin_of_end(self, number: int, failure: Failure) -> None:
        """Let the other nodes end their workers at the same time as those here, in BEAT_S."""
        if self._thread is None:
            self._tell_no_restarts()
        if not failure.is_from_afar:
            is_last = failure.is_final or failure.was_asked
            self._begun_ends.append((number, _end_of(failure, is_last=is_last)))

    def _tell_no_restarts(self) -> None:
        """Let no worker wait in its shutdown for a lost one to come back: the job ends."""
        if self._options.comebacks and self._store is not None:
            with suppress(StoreError):  # then they wait as long as they would anyway
                self._store.set(NO_RESTARTS, b"")

    def tell_end(
        self, number: int, failure: Failure | None, *, is_last: bool, is_hurried: bool
    ) -> None:
        """Let the other nodes know how a round has ended here; they get it within BEAT_S."""
        end = _end_of(failure, is_last=is_last, is_hurried=is_hurried)
        self._own_ends.append((number, end))
        if self._thread is None and self._may_follow(number, [end]):
            self._begin_round(number + 1)

    def others_ended_well(self, number: int) -> bool:
        """Say whether the workers of each other node have ended a round, or a later one, well."""
        others = set(range(self._options.nodes)) - {self._options.node_rank}
        ends = {node: _from(number, self._ends_elsewhere.get(node, {})) for node in others}
        return all(ended and all(map(_is_agreed, ended)) for ended in ends.values())

    def others_requeue(self, number: int) -> bool:
        """Say whether workers of another node ask for a later start of the job."""
        ends = [end for ended in self._ends_elsewhere.values() for end in _from(number, ended)]
        return any(end.status == PREEMPTED_EXIT_STATUS for end in ends)

    def _may_follow(self, number: int, ends: Collection[End]) -> bool:
        """Say whether a round follows one that has ended so on all nodes."""
        has_failed = any(end.status != 0 for end in ends)
        is_last = number >= self._options.rounds_to_follow or any(end.is_last for end in ends)
        return has_failed and not is_last

    def _begin_round(self, number: int) -> None:
        assert self._store is not None
        self._store.begin_round()
        self.round = number

    def close(self) -> None:
        """End the thread, and the store where it is hosted here."""
        self._closing.set()
        store = self._store
        if store is not None:
            store.close()
        if self._lost_workers is not None:
            self._lost_workers.join()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
        os.close(self._read_fd)
        os.close(self._write_fd)

    def _place_among(self, workers: list[int]) -> Place:
        options = self._options
        local_address = options.local_address
        if local_address is None and options.nodes == 1:
            local_address = options.master_address
        return Place(
            first_rank=sum(workers[: options.node_rank]),
            world_size=sum(workers),
            node_rank=options.node_rank,
            local_world_size=options.workers_per_node,
            master_address=options.master_address,
            master_port=self._port,
            local_address=local_address,
        )

    def _post(self, news: News | None, number: int = 0) -> None:
        if news is not None:
            self._news.append((number, news))
        os.write(self._write_fd, b"!")

    def _serve(self) -> None:
        try:
            self._join()
            _Roll(self).keep()
        except Exception as error:  # whatever it is, the main thread waits for the notice
            if not self._closing.is_set() and not self._host_has_ended:
                self._post(Failure(self._what_failed(error), 1, is_final=True))
        self._is_over.set()
        if not self._closing.is_set():
            self._post(None)

    def _what_failed(self, error: Exception) -> str:
        if not isinstance(error, FastdistError):
            return f"a bug in fastdist: {error!r}"
        if self.place is None:
            return f"node {self._options.node_rank} could not join the job: {error}"
        return f"{self.name(0)} was lost: {error}"

    def name(self, node: int) -> str:
        """Return how messages speak of a node."""
        return self._cards[node].name

    def _join(self) -> None:
        options = self._options
        who, lines = f"node {options.node_rank}", _Lines(self._post)
        with WaitLog(who, options.init_timeout_s, lines) as line:
            store = self._store = self._store or self._store_connector.find(line)
            host = options.local_address or socket.gethostname()
            mine = Card(
                options.node_rank,
                options.nodes,
                options.workers_per_node,
                host,
                max_restarts=options.max_restarts,
                restart=options.restart,
            )
            self._cards = gather(store, mine, line, self._closing.is_set)
        self.place = self._place_among([card.workers for card in self._cards])
        self._post(None)

    def connect_again(self, lost: StoreError, until: float) -> None:
        """Connect to node 0's store again if only the connection was cut; until then nothing is
        received.

        Raises  lost, if nobody listens there any more, or the time is over
        """
        if self._options.node_rank == 0 or self._store is None:
            raise lost
        self._store.close()
        mine = card_key(self._cards[self._options.node_rank])
        self._store = self._store_connector.find_again(mine, lost, until)


def _is_agreed(end: End) -> bool:
    return end.status in (0, PREEMPTED_EXIT_STATUS)


def _end_of(failure: Failure | None, *, is_last: bool, is_hurried: bool = False) -> End:
    return End(
        status=0 if failure is None else failure.exit_status,
        sentence="" if failure is None else failure.sentence,
        hearsay=failure is not None and failure.is_from_afar,
        is_last=is_last,
        is_hurried=is_hurried,
        asked_by=0 if failure is None else failure.asked_by,
    )


def _patience_s() -> float:
    """Return how long another node may be silent: as long as workers wait for a peer."""
    try:
        return frozen_s(default=LOST_S)
    except ValueError as error:
        raise RendezvousError(str(error)) from error


class _Lines(io.StringIO):
    """The text of a WaitLog, passed on line by line."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__()
        self._show = show

    def write(self, text: str) -> int:
        self._show(text.rstrip("\n"))
        return len(text)


# Note [Rounds]
# A round begins with a start of all workers, and has ended on a node when all of its workers have.
# Each node stores its result under the round's number, and does not take it back: when all have,
# each can decide alone whether the job is over. Only node 0 decides that it goes on, because it
# must clear the list of ended ranks in the store before the first of them starts again. A node that
# is lost, or that a Ctrl-C ended, does not take part in another round, and then no node does.


class _Roll:
    """The nodes that are here, that have ended and how, and that are lost: each node's thread has
    its own copy.
    """

    def __init__(self, meeting: Meeting) -> None:
        self._meeting = meeting
        self._me = meeting._options.node_rank
        self._lost_s = meeting._lost_s
        self._others = set(range(meeting._options.nodes)) - {self._me}
        now = time.monotonic()
        self._heard = dict.fromkeys(self._others, now)
        # By node and round.
        self._ends = meeting._ends_elsewhere
        self._ends.update({node: {} for node in self._others})
        # Lost ones as well.
        self._left: set[int] = set()
        self._beat = 0
        # When the store last took a beat.
        self._reached = now

    def keep(self) -> None:
        """Beat and listen until all nodes have ended, by one connection or several."""
        while True:
            store = self._meeting._store
            assert store is not None
            try:
                with closing(store.watch(_PREFIX)) as watch:
                    self._keep_by(store, watch)
                return
            except StoreError as error:
                self._meeting.connect_again(error, self._reached + self._lost_s)

    def _keep_by(self, store: Store, watch: Watch) -> None:
        told = told_begun = 0
        while not self._meeting._closing.is_set():
            self._beat += 1
            store.set(f"{_PREFIX}{self._me}/beat", str(self._beat))
            self._reached = time.monotonic()
            # Taken first: the store gets each rank that has ended before the end of the round.
            own = list(self._meeting._own_ends)
            self._meeting._pass_on_ends()
            begun = list(self._meeting._begun_ends)
            if begun[told_begun:]:
                self._meeting._tell_no_restarts()
            for number, end in begun[told_begun:]:
                store.set(f"{_PREFIX}{self._me}/begins/{number}", json.dumps(asdict(end)))
            told_begun = len(begun)
            for number, end in own[told:]:
                store.set(f"{_PREFIX}{self._me}/end/{number}", json.dumps(asdict(end)))
            told = len(own)
            is_hurried = bool(own) and own[-1][1].is_hurried
            if not is_hurried:
                self._listen(watch, time.monotonic() + BEAT_S)
                self._look_for_the_lost()
            if is_hurried or (told and self._is_over_after(*own[-1], store)):
                store.set(f"{_PREFIX}{self._me}/left", b"")
                self._wait_for_others_to_leave(watch)
                return

    def _is_over_after(self, number: int, mine: End, store: Store) -> bool:
        """Say whether the job is over, this node having ended a round; begin the next if not."""
        if number < self._meeting.round or not all(map(self._has_ended, self._others)):
            return False
        ends = [mine, *(end for ended in self._ends.values() for end in _from(number, ended))]
        if self._left or not self._meeting._may_follow(number, ends):
            return True
        if self._me == 0:
            self._meeting._begin_round(number + 1)
            store.set(f"{_PREFIX}{self._me}/round", str(number + 1))
            self._meeting._post(None)
        return False

    def _has_ended(self, node: int) -> bool:
        return node in self._left or bool(_from(self._meeting.round, self._ends[node]))

    def _listen(self, watch: Watch, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            change = watch.next(left)
            if change is not None:
                self._take(change)

    def _take(self, change: Change) -> None:
        node_text, _, what = change.key.removeprefix(_PREFIX).partition("/")
        node = int(node_text)
        if node == self._me or change.value is None:
            return
        self._heard[node] = time.monotonic()
        if what == "left":
            self._left.add(node)
        elif what == "round":
            self._take_round(int(change.value))
        elif what.startswith("begins/"):
            number, end = int(what.removeprefix("begins/")), End(**json.loads(change.value))
            self._post_failure(node, number, end)
        elif what.startswith("end/"):
            self._take_end(node, int(what.removeprefix("end/")), End(**json.loads(change.value)))

    def _take_round(self, number: int) -> None:
        if number > self._meeting.round:
            self._meeting.round = number
            self._meeting._host_has_ended = False
            self._meeting._post(None)

    def _take_end(self, node: int, number: int, end: End) -> None:
        if number in self._ends[node]:
            return  # told again by another connection
        self._ends[node][number] = end
        if node == 0:
            # Its store may disappear any time now, which is not an error.
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

    def _look_for_the_lost(self) -> None:
        now = time.monotonic()
        for node in sorted(self._others):
            silent_s = now - self._heard[node]
            if silent_s > self._lost_s and not self._has_ended(node):
                self._left.add(node)
                sentence = f"{self._meeting.name(node)} was lost: not heard for {silent_s:.0f} s"
                self._meeting._post(Failure(sentence, 1, is_final=True))

    def _wait_for_others_to_leave(self, watch: Watch) -> None:
        """Serve the store a little longer, where it is served here."""
        until = time.monotonic() + self._lost_s
        while self._me == 0 and self._left < self._others and time.monotonic() < until:
            self._listen(watch, min(until, time.monotonic() + BEAT_S))


def _from(number: int, ends: Mapping[int, End]) -> list[End]:
    return [end for other, end in ends.items() if other >= number]

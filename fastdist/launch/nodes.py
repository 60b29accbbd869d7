"""The node runs of one job: where they meet, what they tell each other, and who is lost."""

from __future__ import annotations

import io
import json
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing, suppress

from fastdist.core.errors import FastdistError, RendezvousError, StoreError, StoreTimeoutError
from fastdist.distributed.sockets import JobSecret
from fastdist.distributed.sockets.patience import FROZEN_S, frozen_s
from fastdist.distributed.store import Change, Store, TCPStore, Watch, host_store
from fastdist.distributed.store.waiting_line import WaitingLine
from fastdist.launch.environment import Place
from fastdist.launch.gathering import Card, card_key, gather
from fastdist.launch.options import LaunchOptions
from fastdist.launch.report import Failure

# A launcher that was killed is known at once where it hosted the store, for nobody listens at its
# port any more; any other is known by its silence. Workers wait as long for a peer while a network
# is down: launchers with less patience would end a job that goes on by itself.
BEAT_S = 0.5
LOST_S = FROZEN_S
_ASK_S = 5.0
_TRY_S = 1.0
_PAUSE_S = 0.1
_CLOSE_S = 2.0
_PREFIX = "fastdist/launch/node/"
_THREAD_NAME = "fastdist-launch-nodes"


class Meeting:
    """This node's place in the job, and its store, hosted where the node is the first.

    `place` is None until all nodes have joined. News of them comes through `fileno` and `take`.
    Thread  `_serve` alone talks with the store; all else is the main thread's
    """

    def __init__(self, options: LaunchOptions, secret: JobSecret | None) -> None:
        self.place: Place | None = None
        self._options = options
        self._secret = secret
        self._store: TCPStore | None = None
        self._port = options.master_port or 0
        # Appended by other threads, taken by the main one; a deque is safe for that by itself.
        self._news: deque[Failure | str] = deque()
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        if options.node_rank == 0:
            self._host_store()
        # Of workers here; appended by the main thread, taken by the other one.
        self._ended_ranks: deque[int] = deque()
        self._lost_s = _patience_s()
        self._own_end: str | None = None
        self._is_hurried = False
        self._host_has_ended = False
        self._closing = threading.Event()
        self._is_over = threading.Event()
        self._cards: list[Card] = []
        self._thread: threading.Thread | None = None
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
                timeout=_ASK_S,
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

    def take(self) -> list[Failure | str]:
        """Return what has gone wrong on other nodes since the last call, and lines to be shown."""
        try:
            os.read(self._read_fd, 4096)
        except BlockingIOError:
            return []
        return [self._news.popleft() for _ in range(len(self._news))]

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
            self._ended_ranks.popleft()

    def tell_end(self, failure: Failure | None) -> None:
        """Let the other nodes know how this one has ended; they get it within BEAT_S.

        Note  after a Ctrl-C this node does not wait to learn how the others end
        """
        self._is_hurried = failure is not None and failure.was_asked
        status = 0 if failure is None else failure.exit_status
        sentence = "" if failure is None else failure.sentence
        hearsay = failure is not None and failure.is_from_afar
        self._own_end = json.dumps({"status": status, "sentence": sentence, "hearsay": hearsay})

    def close(self) -> None:
        """End the thread, and the store where it is hosted here."""
        self._closing.set()
        store = self._store
        if store is not None:
            store.close()
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

    def _post(self, news: Failure | str | None) -> None:
        if news is not None:
            self._news.append(news)
        os.write(self._write_fd, b"!")

    def _serve(self) -> None:
        try:
            self._join()
            _Roll(self).keep()
        except Exception as error:  # whatever it is, the main thread waits to be told
            if not self._closing.is_set() and not self._host_has_ended:
                self._post(Failure(self._what_failed(error), 1))
        self._is_over.set()
        if not self._closing.is_set():
            self._post(None)

    def _what_failed(self, error: Exception) -> str:
        if not isinstance(error, FastdistError):
            return f"a mistake of fastdist's own: {error!r}"
        if self.place is None:
            return f"node {self._options.node_rank} could not join the job: {error}"
        return f"{self.name(0)} was lost: {error}"

    def name(self, node: int) -> str:
        """Return how messages speak of a node."""
        return self._cards[node].name

    def _join(self) -> None:
        options = self._options
        who, lines = f"node {options.node_rank}", _Lines(self._post)
        with WaitingLine(who, options.init_timeout_s, lines) as line:
            store = self._store = self._store or self._connect(line)
            host = options.local_address or socket.gethostname()
            mine = Card(options.node_rank, options.nodes, options.workers_per_node, host)
            self._cards = gather(store, mine, line, self._closing.is_set)
        self.place = self._place_among([card.workers for card in self._cards])
        self._post(None)

    def _connect(self, line: WaitingLine) -> TCPStore:
        """Reach node 0's store, which may start later; in short tries, so that close is heard."""
        while True:
            try:
                return self._try_to_connect()
            except StoreTimeoutError:
                if self._closing.is_set() or line.is_over:
                    raise
                address = self._options.master_address
                line.tell_now_and_again(f"node 0 at {address}:{self._port}")

    def _try_to_connect(self) -> TCPStore:
        address = self._options.master_address
        store = TCPStore(address, self._port, timeout=_TRY_S, secret=self._secret)
        store.set_timeout(_ASK_S)
        return store

    def connect_again(self, lost: StoreError, until: float) -> None:
        """Reach node 0's store again if only the way there was cut; until then nobody is heard.

        Raises  lost, if nobody listens there any more, or the time is over
        """
        if self._options.node_rank == 0 or self._store is None:
            raise lost
        self._store.close()
        while time.monotonic() < until and not self._closing.wait(_PAUSE_S):
            try:
                if self._reaches_its_job():
                    return
            except ConnectionRefusedError:
                break
            except (OSError, StoreError):
                continue  # still cut off, or again
        raise lost

    def _reaches_its_job(self) -> bool:
        # Asked first, for a store's client does not tell who refuses it from who is not there.
        socket.create_connection((self._options.master_address, self._port), _TRY_S).close()
        store = self._try_to_connect()
        try:
            # Another job may have the port by now.
            if store.check([card_key(self._cards[self._options.node_rank])]):
                self._store = store
                return True
        except StoreError:
            store.close()
            raise
        store.close()
        return False


def _patience_s() -> float:
    """Return how long another node may be silent: as long as workers are told to wait for one."""
    try:
        return frozen_s(default=LOST_S)
    except ValueError as error:
        raise RendezvousError(str(error)) from error


class _Lines(io.StringIO):
    """What a WaitingLine writes, handed on line by line."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__()
        self._show = show

    def write(self, text: str) -> int:
        self._show(text.rstrip("\n"))
        return len(text)


class _Roll:
    """Who is here, who has ended and how, who is lost: kept by each node's thread for itself."""

    def __init__(self, meeting: Meeting) -> None:
        self._meeting = meeting
        self._me = meeting._options.node_rank
        self._lost_s = meeting._lost_s
        self._others = set(range(meeting._options.nodes)) - {self._me}
        now = time.monotonic()
        self._heard = dict.fromkeys(self._others, now)
        self._ended: set[int] = set()
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
        told_end = False
        while not self._meeting._closing.is_set():
            self._beat += 1
            store.set(f"{_PREFIX}{self._me}/beat", str(self._beat))
            self._reached = time.monotonic()
            self._meeting._pass_on_ends()
            if self._meeting._own_end is not None and not told_end:
                store.set(f"{_PREFIX}{self._me}/end", self._meeting._own_end)
                told_end = True
            if not (told_end and self._meeting._is_hurried):
                self._listen(watch, time.monotonic() + BEAT_S)
                self._look_for_the_lost()
            if told_end and (self._meeting._is_hurried or self._ended >= self._others):
                store.set(f"{_PREFIX}{self._me}/left", b"")
                self._wait_for_others_to_leave(watch)
                return

    def _listen(self, watch: Watch, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            change = watch.next(left)
            if change is not None:
                self._take(change)

    def _take(self, change: Change) -> None:
        number, _, what = change.key.removeprefix(_PREFIX).partition("/")
        node = int(number)
        if node == self._me or change.value is None:
            return
        self._heard[node] = time.monotonic()
        if what == "left":
            self._left.add(node)
        elif what == "end" and node not in self._ended:
            self._ended.add(node)
            if node == 0:
                # Its store may go any time now, and that is no news.
                self._meeting._host_has_ended = True
            end = json.loads(change.value)
            if end["status"] != 0:
                sentence = f"{self._meeting.name(node)} ended: {end['sentence']}"
                failure = Failure(
                    sentence, end["status"], is_from_afar=True, is_hearsay=end["hearsay"]
                )
                self._meeting._post(failure)

    def _look_for_the_lost(self) -> None:
        now = time.monotonic()
        for node in sorted(self._others - self._ended):
            silent_s = now - self._heard[node]
            if silent_s > self._lost_s:
                self._ended.add(node)
                self._left.add(node)
                sentence = f"{self._meeting.name(node)} was lost: not heard for {silent_s:.0f} s"
                self._meeting._post(Failure(sentence, 1))

    def _wait_for_others_to_leave(self, watch: Watch) -> None:
        """Serve the store a little longer, where it is served here."""
        until = time.monotonic() + self._lost_s
        while self._me == 0 and self._left < self._others and time.monotonic() < until:
            self._listen(watch, min(until, time.monotonic() + BEAT_S))

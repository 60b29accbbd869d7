"""`profile`: all workers of the group record at the same time, and one creates the time line."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Self

from fastdist.distributed.rpc.message.metadata_fields import number
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.distributed.rpc.workers.record import WorkerInfo
from fastdist.distributed.rpc.workers.worker import Worker
from fastdist.system.foreign_text import one_line

from ...core.errors import RpcError, RpcTimeoutError
from ...instrumentation.time_ranges import TimeRange, Wanted, clock
from ...profiler.activities import ProfilerActivity, want_devices
from ...profiler.events import EventList, KeyAverages
from ...profiler.given import listed_activities, wanted_in_profile
from ..explain.clocks import Clock, Sighting, sight
from ..rpc.agent import RpcAgent, get_current_agent
from ..rpc.handlers import Reply
from . import group_worker
from .merged import TimeLine, merge
from .ranges_as_bytes import unpack_ranges

_logger = logging.getLogger(__name__)

_PATIENCE_S: Final = 30.0


class profile(KeyAverages):
    """`with profile() as p:` records on all workers of the group; then `p.export_html(path)`.

    `workers` are names, ids or WorkerInfos; by default all workers. The other arguments are those
    of `fastdist.profiler.profile`. Only one worker may profile at a time, and the time line uses
    the clock of this worker.

    Thread  any; entering and leaving send a query to every worker and wait
    Raises  RpcError if a worker is being profiled already; TypeError or RpcError for an unknown
            worker
    Note    a worker that is lost while recording is left out of the time line, with a warning

    Args:
        workers: Names, ids or WorkerInfos of the workers to record; all if None.
        record_shapes: Whether to record the input shapes of ops.
        with_flops: Whether to count the operations of ops.
        with_stack: Whether to record the Python stack at the start of each event.
        profile_memory: Whether to record bytes that ops allocate and free.
        with_modules: Whether to record calls of modules.
        activities: The devices to record, such as [ProfilerActivity.CPU]; all that exist if None.
    """

    def __init__(
        self,
        workers: Iterable[str | int | WorkerInfo] | None = None,
        *,
        record_shapes: bool = False,
        with_flops: bool = False,
        with_stack: bool = False,
        profile_memory: bool = False,
        with_modules: bool = False,
        activities: Iterable[ProfilerActivity] | None = None,
    ) -> None:
        if isinstance(workers, str):
            raise TypeError(f"workers is {workers!r}; expected a list of names or ids")
        wanted = listed_activities(activities)
        self._wanted = None if workers is None else list(workers)
        self._recorded = wanted_in_profile(
            shapes=record_shapes,
            flops=with_flops,
            stack=with_stack,
            memory=profile_memory,
            modules=with_modules,
            # Other workers may have devices that this worker does not have.
            device=wanted is None or want_devices(set(wanted)),
        )
        self._seen: dict[Worker, Sighting] = {}
        self._time_line: TimeLine | None = None

    def start(self) -> None:
        """Start to record on all workers."""
        agent = get_current_agent()
        wanted = self._wanted
        names = [info.name for info in agent.get_worker_infos()] if wanted is None else wanted
        self._workers = [agent.worker(to) for to in names]
        self._seen = {}
        try:
            for worker in self._workers:
                self._begin(agent, worker)
        except BaseException:
            begun, self._seen = self._seen, {}
            for worker in begun:
                try:
                    _Member(agent, worker).end()
                # raise the first error, after ending the recordings of the other workers
                except RpcError as error:
                    _logger.warning("worker %r may still record: %s", worker.name, one_line(error))
            raise

    def _begin(self, agent: RpcAgent, worker: Worker) -> None:
        member = _Member(agent, worker)
        sighting = sight(member.clock)
        self._seen[worker] = sighting
        try:
            member.begin(self._recorded)
        except RpcError as error:
            # After a timeout, the worker may be recording, and must be stopped later. A worker
            # that refused may be recording for another profile, and must not be stopped.
            if not isinstance(error, RpcTimeoutError):
                del self._seen[worker]
            raise

    def stop(self) -> None:
        """End the recording on all workers, and create the time line.

        Raises  RpcError before start
        """
        if not self._seen:
            raise RpcError("this profile has not been started; use it as `with profile() as p:`")
        agent = get_current_agent()
        # Ordered by rank, so that the time line shows the workers in that order.
        ranges: dict[int, list[TimeRange]] = {}
        clocks: dict[int, Clock] = {}
        for worker in self._workers:
            member = _Member(agent, worker)
            try:
                ranges[worker.id] = member.end()
                clocks[worker.id] = Clock(self._seen[worker], sight(member.clock))
            except RpcError as error:
                ranges.pop(worker.id, None)
                text = "worker %r is left out of the profile: %s"
                _logger.warning(text, worker.name, one_line(error))
        self._seen = {}
        names = {worker.id: worker.name for worker in self._workers}
        self._time_line = merge(ranges, clocks, names)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def time_line(self) -> TimeLine:
        """The merged recordings, after the end of the block.

        Raises  RpcError before the end of the block
        """
        if self._time_line is None:
            raise RpcError("the profile has not ended yet: there is no time line")
        return self._time_line

    def _averaged(self) -> EventList:
        return self.events()

    def _repr_html_(self) -> str | None:
        """Return the time line as an HTML frame for a notebook; None before the end of the
        block.
        """
        return None if self._time_line is None else self._time_line._repr_html_()

    def events(self) -> EventList:
        """Return the events of all workers, ordered by their start."""
        return self.time_line.events

    def critical_path(self) -> EventList:
        """Return the events for which the backward passes waited, in order."""
        return self.time_line.critical_path()

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a file for chrome://tracing or Perfetto; it is compressed if the name ends in
        .gz.

        Args:
            path: The path of the JSON file.
        """
        self.time_line.export_chrome_trace(path)

    def export_html(self, path: str | os.PathLike[str], title: str = "fastdist") -> None:
        """Write an HTML page with the time line, which opens in any browser, offline.

        Args:
            path: The path of the page.
            title: The title of the page.
        """
        self.time_line.export_html(path, title)


class _Member:
    """A worker that is profiled; if it is this worker, no messages are sent."""

    def __init__(self, agent: RpcAgent, worker: Worker) -> None:
        self._agent, self._worker = agent, worker
        self._is_me = worker.is_self

    def _ask(self, what: str, **fields: Any) -> Reply:
        reply: Reply = self._agent.client.begin(
            self._worker,
            MessageType.PROFILE_GROUP_REQ,
            None,
            {"do": what, **fields},
            _PATIENCE_S,
            f"profiling ({what})",
        ).wait()
        return reply

    def clock(self) -> int:
        """Return the time of the worker's clock."""
        if self._is_me:
            return clock()
        return number(self._ask("clock").metadata, "clock", self._worker.id)

    def begin(self, wanted: Wanted) -> None:
        """Start to record on the worker."""
        if self._is_me:
            group_worker.begin(self._worker, wanted)
        else:
            self._ask("begin", wanted=wanted.names())

    def end(self) -> list[TimeRange]:
        """End the recording on the worker, and return its ranges."""
        if self._is_me:
            size, dropped = group_worker.end(self._worker)
        else:
            metadata = self._ask("end").metadata
            size, dropped = (
                number(metadata, name, self._worker.id) for name in ("size", "dropped")
            )
        if dropped:
            _logger.warning(
                "worker %r recorded too much: the last %d time ranges are left out",
                *(self._worker.name, dropped),
            )
        pieces: list[bytes] = []
        while (at := sum(map(len, pieces))) < size:
            piece = self._fetch(at)
            if not isinstance(piece, bytes) or not piece:
                raise RpcError(f"worker {self._worker.name!r} handed over {at} of {size} bytes")
            pieces.append(piece)
        return unpack_ranges(b"".join(pieces), self._worker.id) if pieces else []

    def _fetch(self, at: int) -> object:
        if self._is_me:
            return group_worker.fetch(self._worker, at)
        return self._ask("fetch", at=at).metadata.get("ranges")

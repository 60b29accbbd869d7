"""A stream of a simulated device: a thread that runs queued work in order, asynchronously."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from fastdist.core.errors import DeviceError, KernelError
from fastdist.instrumentation.time_ranges import clock, time_ranges

from .faults import Behaviour

# Note [Laziness]
# Tasks are in `_tasks`. The thread takes a ticket from `_tickets`, and then runs all tasks before
# that ticket in `_tasks`. To get work done, a caller first appends a ticket to `_tasks` and then
# puts the same ticket into `_tickets`. If Ctrl-C comes between these two steps, the thread later
# skips the ticket in `_tasks`. An eager stream issues a ticket after each task, a lazy stream only
# when something waits for the stream. If the thread ran until `_tasks` is empty instead, it would
# sometimes run tasks that were queued just after a synchronization. That would hide the errors that
# laziness must expose.
#
# Memory is released by finalizers. A finalizer may run anywhere, even while the same thread is
# inside append or put. deque.append and SimpleQueue.put are reentrant; locks are not. So queueing
# uses no lock.

# Note [Streams that end together]
# At exit or in a reset, all streams are stopped, one after the other. The queued work of one stream
# is dropped while another stream, which waits for that work, still runs. The waiting stream must
# not report an error. So all streams that are stopped together get the same object, `together`, and
# the errors of their dropped work carry this object.
_log: Final = logging.getLogger(__name__)


class _Dropped(DeviceError):
    """A stream was stopped before it reached an event. `together` is the argument of `stop`."""

    together: object = None


class _Ticket:
    """A position in the queue of tasks: the thread runs all tasks before it."""

    __slots__ = ("is_passed",)

    def __init__(self) -> None:
        self.is_passed = False


_END: Final = _Ticket()


class SimEvent:
    """A point in a simulated stream's work."""

    __slots__ = ("_failure", "_passed", "_passed_ns", "_stream")

    def __init__(self, stream: SimStream) -> None:
        self._stream = stream
        self._passed = threading.Event()
        self._failure: Exception | None = None

    def query(self) -> bool:
        """Return whether the stream has passed this point.

        Note    a query does not make a lazy stream run; `synchronize` does
        """
        return self._passed.is_set()

    def synchronize(self) -> None:
        """Wait until the stream has passed this point.

        Raises  KernelError if a kernel before this point failed; the message names the kernel
        """
        self._stream._require_other_thread("wait for an event of")
        self._stream.flush()
        self._passed.wait()
        if self._failure is not None:
            self._stream._deliver(self._failure)

    def wait_quietly(self) -> bool:
        """Wait until the stream has passed this point; return whether no error occurred.

        Note    later calls that wait for the device still raise the error
        """
        self._stream._require_other_thread("wait for an event of")
        self._stream.flush()
        self._passed.wait()
        return self._failure is None

    def elapsed_ms(self, end: SimEvent) -> float:
        """Return the milliseconds from this event to `end`. The stream must have passed both."""
        return (end._passed_ns - self._passed_ns) / 1e6

    def _pass(self, failure: Exception | None) -> None:
        self._failure = failure
        self._passed_ns = clock()
        self._passed.set()


class SimStream:
    """An ordered queue of work. One thread, which starts with the first work, runs it.

    After a kernel fails, later kernels are skipped, and streams that wait for this stream fail too.
    The next synchronization raises the error once. Host functions run even after a failure, because
    a thread may wait for them.

    Thread  any may queue and wait; `with stream:` applies only to the calling thread
    """

    def __init__(self, index: int, number: int, behaviour: Behaviour, currents: Currents) -> None:
        self.index = index
        self.name = f"fastdist-sim-{index}-stream-{number}"
        self._behaviour = behaviour
        self._currents = currents
        self._delays = behaviour.delays_of(self.name)
        self._tasks: deque[tuple[Callable[..., None], tuple[Any, ...]] | _Ticket] = deque()
        self._tickets: SimpleQueue[_Ticket] = SimpleQueue()
        self._thread: threading.Thread | None = None
        # Guards starting and stopping the thread. The thread that holds it acquires no other lock.
        self._thread_lock = threading.Lock()
        self._failure: Exception | None = None
        self._working = False
        self._stopping = threading.Event()
        # See Note [Streams that end together].
        self._together: object = None

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def is_stopped(self) -> bool:
        return self._stopping.is_set()

    def launch(self, name: str, kernel: Callable[..., None], *arguments: Any) -> None:
        """Queue one kernel. Its array arguments are NumPy arrays of the device's memory."""
        self._queue(self._run_kernel, name, kernel, arguments)

    def launch_host_function(self, function: Callable[[], object]) -> None:
        """Call `function` on this stream's thread after earlier work, even if that work failed."""
        self._queue(self._call, function)

    def launch_quietly(self, kernel: Callable[..., None], *arguments: Any) -> None:
        """Queue a kernel without faults. This acquires no lock, starts no thread, never raises."""
        if not self.is_stopped:
            self._tasks.append((kernel, arguments))
            self._put_ticket_from_finalizer()

    def record_event(self, *, timed: bool = False) -> SimEvent:
        """Return an event at the end of the work queued so far. Finalizers may call it.

        Note    `timed` has no effect: all events are timed
        """
        event = SimEvent(self)
        if self.is_stopped or (self._failure is None and self.query()):
            event._pass(None)
        else:
            self._tasks.append((self._reach, (event,)))
            self._put_ticket_from_finalizer()
        return event

    def wait_event(self, event: Any) -> None:
        """Make work queued from now on start after the event."""
        if not event.query() or getattr(event, "_failure", None) is not None:
            self._queue(self._wait_for, event)

    def follow(self, stream: SimStream) -> None:
        """Make work queued from now on start after the work that another stream has queued."""
        self.wait_event(stream.record_event())

    def query(self) -> bool:
        """Return whether all queued work is done; this does not make a lazy stream run."""
        # `_tasks` is read before `_working`, because the thread sets `_working` before it takes a
        # task.
        return not self._tasks and not self._working

    def synchronize(self) -> None:
        """Wait until all queued work is done.

        Raises  KernelError if a kernel failed; the message names the kernel
        """
        self._require_running()
        self.record_event().synchronize()

    def flush(self) -> None:
        """Make the thread run all queued work. Does not wait."""
        if self.is_stopped:
            self._abandon()
        elif self._tasks:
            if self._thread is None:
                self._start()
            self._put_ticket()

    def advance(self) -> None:
        """Start the queued work, unless the stream is lazy."""
        if not self._behaviour.lazy:
            self.flush()

    def stop(self, together: object = None) -> None:
        """Stop the thread after its current task, drop the other tasks, and wait for the thread.

        together: see Note [Streams that end together].
        """
        with self._thread_lock:
            self._together = together or object()
            self._stopping.set()
            thread = self._thread
        if thread is None:
            self._abandon()
            return
        self._tickets.put(_END)
        if thread is not threading.current_thread():
            thread.join()
        if self._failure is not None and not self._ended_with(self._failure):
            _log.error("%s ends with an error that nobody waited for: %s", self.name, self._failure)

    def __enter__(self) -> Self:
        self._currents.push(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._currents.pop(self)

    def _queue(self, run: Callable[..., None], *arguments: Any) -> None:
        self._require_running()
        self._tasks.append((run, arguments))
        self.advance()

    def _put_ticket_from_finalizer(self) -> None:
        if self._thread is not None and not self._behaviour.lazy:
            self._put_ticket()

    def _put_ticket(self) -> None:
        ticket = _Ticket()
        self._tasks.append(ticket)
        self._tickets.put(ticket)

    def _start(self) -> None:
        with self._thread_lock:
            if self._thread is None and not self.is_stopped:
                thread = threading.Thread(target=self._work, name=self.name, daemon=True)
                thread.start()
                self._thread = thread

    def _work(self) -> None:
        with self._thread_lock:
            if self._thread is not threading.current_thread():
                return  # Ctrl-C came before `_thread` was set; the next work starts a new thread
        # The kernels, which are those of the CPU, then return inf and NaN without warnings of
        # NumPy, as kernels of a GPU do.
        with np.errstate(all="ignore"):
            while (ticket := self._tickets.get()) is not _END:
                self._working = True
                self._work_up_to(ticket)
                self._working = False
        self._abandon()

    # This is a separate method, so that no local variable keeps a task's memory alive while the
    # thread waits for a ticket.
    def _work_up_to(self, ticket: _Ticket) -> None:
        while not (ticket.is_passed or self.is_stopped):
            try:
                task = self._tasks.popleft()
            except IndexError:
                break  # stop() was called, and another thread dropped the other tasks
            if isinstance(task, _Ticket):
                task.is_passed = True
                continue
            run, arguments = task
            run(*arguments)

    def _run_kernel(
        self, name: str, kernel: Callable[..., None], arguments: tuple[Any, ...]
    ) -> None:
        delay_s = next(self._delays)
        if delay_s:
            self._stopping.wait(delay_s)
        if self._failure is not None or self.is_stopped:
            return
        # If `wanted.device` is set, the op that launched the kernel reports the time instead.
        tells = time_ranges.on and not time_ranges.wanted.device
        start_ns = clock() if tells else 0
        try:
            self._behaviour.before_kernel(name)
            kernel(*arguments)
            if start_ns:
                time_ranges.add(name, "kernel", start_ns, device=f"sim:{self.index}")
        except BaseException as error:
            self._fail(f"kernel {name!r} failed: {error}", error)

    def _call(self, function: Callable[[], object]) -> None:
        try:
            function()
        except BaseException as error:
            self._fail(f"host function {function!r} failed: {error}", error)

    def _fail(self, what: str, cause: BaseException) -> None:
        if self._failure is None:
            failure = KernelError(
                f"sim:{self.index}: {what} (on {self.name}; seen when waited for)"
            )
            failure.__cause__ = cause
            self._failure = failure

    def _reach(self, event: SimEvent) -> None:
        event._pass(self._failure)

    def _wait_for(self, event: Any) -> None:
        if not isinstance(event, SimEvent):
            try:
                event.synchronize()
            except BaseException as error:
                self._fail(f"an event of another device failed: {error}", error)
            return
        event._stream.flush()
        event._passed.wait()
        if self._failure is None:
            self._failure = event._failure

    def _deliver(self, failure: Exception) -> None:
        if self._failure is failure:
            self._failure = None
        # Each waiting thread raises a copy of the error, because a traceback belongs to one raise.
        raise type(failure)(*failure.args) from failure.__cause__

    def _ended_with(self, failure: Exception) -> bool:
        return isinstance(failure, _Dropped) and failure.together is self._together

    def _abandon(self) -> None:
        while True:
            try:
                task = self._tasks.popleft()
            except IndexError:
                return
            if not isinstance(task, _Ticket) and task[0] == self._reach:
                dropped = _Dropped(f"{self.name} was stopped with work queued")
                dropped.together = self._together
                task[1][0]._pass(dropped)

    def _require_running(self) -> None:
        if self.is_stopped:
            raise DeviceError(f"{self.name} was stopped; take a new stream of sim:{self.index}")

    def _require_other_thread(self, what: str) -> None:
        if self._thread is threading.current_thread():
            raise DeviceError(f"a host function of {self.name} may not {what} its own stream")


class Currents(threading.local):
    """The streams that the calling thread has entered and not left, innermost last."""

    def __init__(self) -> None:
        self._entered: list[SimStream] = []

    def push(self, stream: SimStream) -> None:
        self._entered.append(stream)

    def pop(self, stream: SimStream) -> None:
        if not self._entered or self._entered[-1] is not stream:
            raise DeviceError(
                f"{stream.name} is left out of order; leave the innermost stream first"
            )
        self._entered.pop()

    def innermost(self, index: int) -> SimStream | None:
        """Return the stream of this device that was entered last and is not stopped, or None."""
        for stream in reversed(self._entered):
            if stream.index == index and not stream.is_stopped:
                return stream
        return None

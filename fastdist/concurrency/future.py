"""Futures: a value that some thread will set once, and the callbacks that run then."""

from __future__ import annotations

import logging
import threading
from _thread import RLock
from collections.abc import Callable, Generator, Iterable
from typing import Any, Generic, Protocol, TypeVar, cast

from ..core.errors import FutureError
from ..core.folded_frames import fold, folds
from ..core.short_repr import short_repr
from .thread_pool import hand_on_lead, lend_slot, take_slot_back
from .unread_errors import Unread, UnreadTogether

T = TypeVar("T")
S = TypeVar("S")

_logger = logging.getLogger(__name__)

_PENDING, _VALUE, _ERROR = 0, 1, 2


class Executor(Protocol):
    """The pool that runs a Future's callbacks."""

    def submit(self, function: Callable[..., object], *arguments: object) -> bool:
        """Run function(*arguments) soon on another thread; False if the pool is closed."""


class Future(Generic[T]):
    """A value or an error that is set once.

    Thread  any; wait() blocks without the GIL, completing never blocks
    Note    callbacks run in `executor` if one is given, otherwise in the thread that completes the
            Future. If the Future is done already, a new callback runs immediately in the thread
            that adds it
    Note    if the Future is dropped with an unread error, the error is logged as a warning. An
            error counts as read if wait(), value() or exception() was called, or if a callback got
            the Future

    Args:
        devices: The GPUs on whose streams the value may be used; none if None.
        executor: The pool in which callbacks run; the completing thread if None.

    Example:
        >>> future = torch.futures.Future()
        >>> doubled = future.then(lambda done: done.value() * 2)
        >>> future.set_result(4)
        >>> doubled.wait()
        8
    """

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_executor",
        "_follow",
        "_lock",
        "_outcome",
        "_state",
        "_unread",
        "_waiters",
    )
    # The name of the failed work in a warning about an unread error; None: no warning.
    _told_as: str | None = "the work of a Future"

    def __init__(
        self, *, devices: Iterable[object] | None = None, executor: Executor | None = None
    ) -> None:
        if devices is not None:
            _require_indices(devices)
        # Guards the next four slots. While it is held, no function is called, not even append: a
        # signal handler could run in the call and complete this Future. From Python 3.14 on, a
        # handler may run right after the lock is taken, before any assignment, so the lock is
        # reentrant. `threading.RLock` is a function that wraps this class.
        self._lock = RLock()
        self._state = _PENDING
        self._outcome: Any = None
        self._callbacks: list[Callable[[Future[T]], object]] | None = None
        self._waiters: dict[threading.Lock, None] | None = None
        self._executor = executor
        # Logs an error that is never read. See Note [Errors that nobody reads].
        self._unread: Unread | None = None
        # Called in each thread before the thread takes the value, so that the thread's streams wait
        # for the devices.
        self._follow: Callable[[], object] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in Future.__slots__:
            raise TypeError("Future.__init__() must be called when overriding __init__")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def done(self) -> bool:
        """Return whether a value or an error has arrived."""
        return self._state != _PENDING

    def wait(self, timeout: float | None = None) -> T:
        """Return the value, or raise the error, once it has arrived.

        Units   timeout in seconds; None waits forever
        Raises  TimeoutError if the Future is not done within timeout; the error of this Future

        Args:
            timeout: Seconds to wait; forever if None.
        """
        try:
            if self._state == _PENDING and not self._wait_until_done(timeout):
                raise TimeoutError(f"the Future was not completed within {timeout} s")
            return self.value()
        except Exception as error:
            fold(error)
            raise
        finally:
            # Break a reference cycle: the error's traceback holds this frame, and the Future holds
            # the error.
            del self

    def value(self) -> T:
        """Return the value of a Future that is done, or raise its error.

        Raises  FutureError if it is not done
        """
        try:
            if self._state == _VALUE:
                if self._follow is not None:
                    self._follow()
                return self._outcome  # type: ignore[no-any-return]
            if self._state == _PENDING:
                raise FutureError(
                    "value() of a Future that is not done: call wait() instead, or ask done() first"
                )
            self.was_read()
            raise self._outcome
        except Exception as error:
            fold(error)
            raise
        finally:
            del self  # as in wait()

    def exception(self) -> BaseException | None:
        """Return the error of a Future that is done; None if it has a value or is not done."""
        if self._state != _ERROR:
            return None
        self.was_read()
        return cast(BaseException, self._outcome)

    def peek_error(self) -> BaseException | None:
        """Return the error as exception() does, without counting as a reader of it."""
        return cast(BaseException, self._outcome) if self._state == _ERROR else None

    def was_read(self) -> None:
        """Mark the error, if any, as read, so that it is not logged."""
        unread, self._unread = self._unread, None
        if unread is not None:
            unread.read()

    def describe_failure(self, what: str) -> None:
        """Set the name of what failed, for the log of an unread error."""
        unread = self._unread
        if unread is not None:
            unread.describe(what)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """Return a Future of the result of callback(self). The callback runs when this Future is
        done.

        Raises  TypeError for a callback that is not callable

        Args:
            callback: A function of this Future, called when this Future is done.
        """
        if not callable(callback):
            raise _not_callable("then", callback)
        # The child of an internal Future is also internal, because users cannot access it.
        kind = Future if self._told_as is not None else InternalFuture
        child: Future[S] = kind(executor=self._executor)
        try:
            self._add(_Continuation(callback, child))
            return child
        finally:
            del child  # break a reference cycle: an error of the callback holds this frame

    def add_done_callback(self, callback: Callable[[Future[T]], object]) -> None:
        """Call callback(self) when this Future is done; log an error of the callback.

        Raises  TypeError for a callback that is not callable

        Args:
            callback: A function of this Future, called when it is done.
        """
        if not callable(callback):
            raise _not_callable("add_done_callback", callback)
        self._add(callback)

    def when_done(self, callback: Callable[[Future[T]], object]) -> None:
        """Call callback(self) in the thread that completes this Future; for short internal
        callbacks.

        Note    ignores the executor; logs an error of the callback; does not mark this Future's
                error as read
        """
        self._add(_AtOnce(callback))

    def let_follow(self, follow: Callable[[], object]) -> None:
        """Call follow() in each thread before the thread takes the value. Use this method before
        the Future is completed.
        """
        self._follow = follow

    def set_result(self, result: T) -> None:
        """Complete this Future with a value.

        Raises  FutureError if it is done already

        Args:
            result: The value that wait() returns.
        """
        if not self._complete(_VALUE, result):
            raise FutureError(_COMPLETED_TWICE)

    def set_exception(self, result: BaseException) -> None:
        """Complete this Future with an error, which wait() and value() will raise.

        Raises  FutureError if it is done already; AssertionError if result is not an exception

        Args:
            result: The error that wait() raises.
        """
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        if not self._complete(_ERROR, result):
            raise FutureError(_COMPLETED_TWICE)

    def try_complete(self, value: object = None, error: BaseException | None = None) -> bool:
        """Complete with `error` if given, else with `value`; return False if already complete."""
        return self._complete(_VALUE, value) if error is None else self._complete(_ERROR, error)

    def __await__(self) -> Generator[Any, None, T]:
        """Support `await future` in asyncio code."""
        import asyncio

        loop = asyncio.get_running_loop()
        arrived = loop.create_future()

        def tell(_: Future[T]) -> None:
            loop.call_soon_threadsafe(finish)

        def finish() -> None:
            if not arrived.done():
                arrived.set_result(None)

        self.add_done_callback(tell)
        yield from arrived
        return self.value()

    def __reduce__(self) -> tuple[object, ...]:
        raise FutureError(
            "Can not pickle torch.futures.Future. It belongs to this process: wait for it, and "
            "send its value"
        )

    def _complete(self, state: int, outcome: object) -> bool:
        waiters = callbacks = unread = None
        if state == _ERROR and self._told_as is not None:
            unread = Unread(cast(BaseException, outcome), self._told_as)
        try:
            with self._lock:
                if self._state != _PENDING:
                    if unread is not None:
                        unread.error = None
                    return False
                # Set the outcome before the state: done(), wait() and value() read the state
                # without the lock.
                self._unread = unread
                self._outcome = outcome
                self._state = state
                waiters, self._waiters = self._waiters, None
                callbacks, self._callbacks = self._callbacks, None
            if waiters is not None:
                for waiter in waiters:
                    waiter.release()
            if callbacks is not None:
                self._run(callbacks)
        except BaseException:
            # Ctrl-C, or sys.exit() in a callback: notify the waiters of this Future nevertheless.
            for waiter in waiters or ():
                if waiter.locked():
                    waiter.release()
            if callbacks:
                self._run(callbacks)
            raise
        return True

    def wait_until_done(self, timeout: float | None = None) -> bool:
        """Wait until this Future is done, without raising its error; return whether it is done.

        Args:
            timeout: Seconds to wait; forever if None.
        """
        return self._state != _PENDING or self._wait_until_done(timeout)

    def _wait_until_done(self, timeout: float | None) -> bool:
        waiter = threading.Lock()
        waiter.acquire()
        with self._lock:
            if self._state != _PENDING:
                return True
            if self._waiters is None:
                self._waiters = {}
            self._waiters[waiter] = None
        hand_on_lead()
        lent = lend_slot()
        try:
            return waiter.acquire(timeout=-1 if timeout is None else max(0.0, timeout))
        finally:
            if lent is not None:
                take_slot_back(lent)
            with self._lock:
                if self._waiters is not None:
                    del self._waiters[waiter]

    def _add(self, callback: Callable[[Future[T]], object]) -> None:
        with self._lock:
            if self._state == _PENDING:
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks += [callback]
                return
        _call(callback, self)

    def _run(self, callbacks: list[Callable[[Future[T]], object]]) -> None:
        """Call callbacks in order; each is removed from the list before it is called."""
        executor = self._executor
        callback: object = None
        try:
            while callbacks:
                callback = callbacks[0]
                del callbacks[0]
                if self._unread is not None and callback.__class__ not in _NO_READERS:
                    self.was_read()
                if executor is None or callback.__class__ is _AtOnce:
                    try:
                        callback(self)  # not by _call, where a Ctrl-C could be raised
                    except Exception:
                        _logger.exception(_CALLBACK_RAISED)
                # A closed pool accepts no work. The callback then runs in this thread, so that no
                # code waits forever for its effect.
                elif not executor.submit(_call, callback, self):
                    _call(callback, self)
        except BaseException as error:
            # Ctrl-C or sys.exit() in a callback: call the remaining callbacks nevertheless.
            if isinstance(callback, _Continuation) and callback.child is not None:
                callback.child.try_complete(error=error)
            self._run(callbacks)
            raise


_CALLBACK_RAISED = "a callback of a Future raised; use then() to have its error in a Future"
_COMPLETED_TWICE = (
    "Attempting to mark a completed Future as complete again. "
    "Note that a Future can only be marked completed once."
)


class InternalFuture(Future[T]):
    """A Future that users cannot access; its unread errors are not logged."""

    __slots__ = ()
    _told_as = None


class _AtOnce:
    """A callback that runs in the completing thread, and does not count as a reader of
    the error.
    """

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[Future[Any]], object]) -> None:
        self._callback = callback

    def __call__(self, future: Future[Any]) -> None:
        self._callback(future)


class _Collector:
    """The callback of collect_all; it passes errors on, and does not count as a reader of them."""

    __slots__ = ("_all_done", "_left", "_lock", "_members", "_together")

    def __init__(self, members: list[Future[Any]], all_done: Future[list[Future[Any]]]) -> None:
        self._members, self._all_done = members, all_done
        self._lock = threading.Lock()
        self._left = len(members)
        self._together = UnreadTogether()

    def __call__(self, member: Future[Any]) -> None:
        error = member.peek_error()
        if error is not None:
            self._failed(member, error)
            return
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._all_done.try_complete(self._members)

    def _failed(self, member: Future[Any], error: BaseException) -> None:
        """Complete the collected Future with the first error; log unread errors in one warning."""
        unread, is_first = member._unread, self._all_done.try_complete(error=error)
        if unread is None:
            return
        if is_first:
            # A caller that reads the error of the collected Future also reads this error.
            member.was_read()
            self._all_done.describe_failure(unread.what)
            unread = self._all_done._unread
        if unread is not None:
            unread.join(self._together)


# Classes of callbacks that do not count as readers of an error.
_NO_READERS = (_AtOnce, _Collector)


def _require_indices(devices: Iterable[object]) -> None:
    for device in devices:
        if not isinstance(device, int) and ":" not in str(device):
            raise ValueError(f"Expected devices to have indices, got {device}")


def _not_callable(method: str, callback: object) -> TypeError:
    return TypeError(
        f"{method}(): incompatible function arguments. callback is {short_repr(callback)}; "
        "expected a "
        "function that takes the Future"
    )


class _Continuation(Generic[T, S]):
    """A callback whose result or error completes another Future (the child)."""

    __slots__ = ("callback", "child")

    def __init__(self, callback: Callable[[Future[T]], S], child: Future[S]) -> None:
        self.callback = callback
        self.child: Future[S] | None = child

    def __call__(self, future: Future[T]) -> None:
        child = self.child
        assert child is not None, "a callback is called once"
        try:
            result = self.callback(future)
        except BaseException as error:
            child.try_complete(error=error)
            child.describe_failure(f"the callback {_name_of(self.callback)} of then()")
        else:
            child.try_complete(result)
        finally:
            # The traceback of the error references this frame and its callers, which
            # reference this object. The child holds the error, so this link would close a cycle.
            self.child = None
            del child


def _name_of(function: object) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _call(callback: Callable[[Future[Any]], object], future: Future[Any]) -> None:
    if future._unread is not None and callback.__class__ not in _NO_READERS:
        future.was_read()
    try:
        callback(future)
    except Exception:
        _logger.exception(_CALLBACK_RAISED)


def collect_all(futures: Iterable[Future[Any]]) -> Future[list[Future[Any]]]:
    """Return a Future of the list of `futures`. It is done when all members of the list are done,
    or when a member has an error.

    Raises  TypeError for an element that is not a Future
    """
    members = list(futures)
    for member in members:
        if not isinstance(member, Future):
            raise TypeError(
                "collect_all(): incompatible function arguments. Expected Futures, got a "
                f"{type(member).__name__}: {short_repr(member)}"
            )
    all_done: Future[list[Future[Any]]] = Future()
    if not members:
        all_done.set_result(members)
        return all_done
    collect = _Collector(members, all_done)
    for member in members:
        member.add_done_callback(collect)
    return all_done


@folds
def wait_all(futures: Iterable[Future[Any]]) -> list[Any]:
    """Wait, and return all values in order; raise the first error without waiting for
    the others.
    """
    return [future.value() for future in collect_all(futures).wait()]


def outcomes(futures: Iterable[Future[Any]]) -> list[Any]:
    """Wait for all Futures, even if one has failed; return their values in order.

    Raises  the first error, with the others as notes
    """
    values: list[Any] = []
    first: Exception | None = None
    for future in futures:
        try:
            values.append(future.wait())
        except Exception as error:
            if first is None:
                first = error
            else:
                first.add_note(f"and another failed: {type(error).__name__}: {error}")
    if first is not None:
        raise first
    return values


def outcome_of(function: Callable[..., Any], *args: Any) -> Future[Any]:
    """Call a function, and return a Future of its result or of its error."""
    outcome: Future[Any] = Future()
    try:
        outcome.set_result(function(*args))
    except Exception as error:
        outcome.set_exception(error)
    return outcome

"""Grad mode, and the flags that say whether any other mode is active."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Container, Sequence
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias, TypeVar, overload

from ..core.interpreter import open_interpreters, see_plain
from ..system.forked_locks import renew_in_children

F = TypeVar("F", bound=Callable[..., Any])


class _Modes:
    """Flags that every op reads. They are attributes of one object with slots, so that a read takes
    only 6 ns.

    `special` counts everything for which ops take the general path: tracers, open forward levels,
    mirrors of remote levels. `tracers` counts the tracers, which see every op. `timed` counts the
    tracers that are profiles, but it is 0 while a profile records more than names and times.
    `grad_off` counts threads with grad mode off: an op reads its thread's own flag only while
    `grad_off` is not 0. `plain` has the classes of plain tensors while `special` is 0, and is empty
    otherwise, so that functions with a fast path for plain tensors need only one test.
    """

    __slots__ = ("grad_off", "plain", "special", "timed", "tracers")

    def __init__(self) -> None:
        self.special = 0
        self.plain: frozenset[Any] = frozenset()
        self.tracers = 0
        self.timed = 0
        self.grad_off = 0


# The state of a pass that runs inline, in the calling thread (engine/inline.py): the pass's roots
# as (edge, gradient) pairs; the callbacks for its end; and the Nodes that it reaches if it has
# chosen inputs, or None for all Nodes. It is a plain tuple, because with a named tuple a small pass
# would take 3 % longer.
InlinePass: TypeAlias = (
    "tuple[Sequence[tuple[Any, Any]], list[Callable[[], None]], Container[Any] | None]"
)


class _ThreadModes(threading.local):
    grad = True
    inference = False  # whether the thread is inside a block of inference_mode
    # Whether `modes.grad_off` counts this thread. A thread with grad mode off is always counted.
    # After a Ctrl-C a thread may stay counted with grad mode on. Then ops only read one more flag.
    is_counted = False
    # The state of the inline pass that this thread runs, or None.
    inline_pass: InlinePass | None = None
    # Nodes of the inputs that a transform differentiates by (transform_inputs.py).
    transform_inputs: tuple[Any, ...] = ()


# Note [Ctrl-C and grad mode]
# Python raises KeyboardInterrupt only when it calls a function, returns from a C function or
# repeats a loop, never at a plain assignment. So code that switches grad mode off temporarily does
# that inside `try`. If grad mode was on, its `finally` assigns `tls.grad = True` before it calls
# anything: a Ctrl-C at an earlier call would leave recording off in the main thread.
modes = _Modes()
tls = _ThreadModes()
_modes_lock = threading.Lock()
renew_in_children(sys.modules[__name__], "_modes_lock")


_NONE: Final = frozenset[Any]()
_plain_classes = _NONE


def set_plain_classes(classes: frozenset[Any]) -> None:
    """Define the classes of plain tensors."""
    global _plain_classes
    _plain_classes = classes
    count_special(0)


def count_special(change: int) -> None:
    """Add `change` to the count of active special modes."""
    with _modes_lock:
        modes.plain = _NONE
        modes.special += change
        if not modes.special:
            modes.plain = _plain_classes


def count_tracers(change: int) -> None:
    """Add `change` to the count of tracers, which see every call. A tracer also counts as a special
    mode.
    """
    with _modes_lock:
        # The order of these changes keeps `special` at or above the sum of tracers and levels.
        modes.plain = _NONE
        if change > 0:
            modes.special += change
        modes.tracers += change
        if change < 0:
            modes.special += change
        if not modes.special:
            modes.plain = _plain_classes


def runs_plain() -> bool:
    """Return whether calls on plain tensors in this thread run directly: no interpreter sees them,
    and no tangent exists.

    Note    called only while modes.special is not zero
    """
    return modes.special == modes.tracers and not see_plain(open_interpreters())


def may_be_differentiated() -> bool:
    """Return whether a derivative of this thread's results may be needed: grad mode is on, a
    tangent exists, or an interpreter may see the call.
    """
    return tls.grad or modes.special > 0


class Counted(Protocol):
    """A thread's state with the count that `count_open` maintains."""

    counted: int


def count_open(thread: Counted, number: int) -> None:
    """Set the number of open objects in a thread that must see every call of an op. If a Ctrl-C
    left a wrong number, the next call of count_open corrects it.
    """
    with _modes_lock:
        # The block only assigns, and no Ctrl-C can interrupt an assignment.
        change = number - thread.counted
        modes.plain = _NONE
        if change > 0:
            modes.special += change
        modes.tracers += change
        if change < 0:
            modes.special += change
        thread.counted = number
        if not modes.special:
            modes.plain = _plain_classes


def is_grad_enabled() -> bool:
    """Return whether ops of this thread are recorded.

    Example:
        >>> torch.is_grad_enabled()
        True
    """
    return tls.grad


def is_inference_mode_enabled() -> bool:
    """Return whether this thread is inside a block of inference_mode."""
    return tls.inference


def set_grad_mode(enabled: bool) -> None:
    """Switch recording on or off for this thread."""
    if enabled:
        tls.grad = enabled
        if tls.is_counted:
            with _modes_lock:
                modes.grad_off -= 1
                tls.is_counted = False
        return
    if not tls.is_counted:
        with _modes_lock:
            modes.grad_off += 1
            tls.is_counted = True
    # Last, so that a Ctrl-C in this function leaves grad mode unchanged.
    tls.grad = enabled


class _GradMode:
    """A context manager and decorator that sets grad mode, and restores the old mode at the end."""

    enabled = True

    def __init__(self) -> None:
        # A stack, because a `with` block of this object may contain another block of the same
        # object.
        self._previous: list[bool] = []

    def __enter__(self) -> None:
        try:
            self._previous.append(tls.grad)
        except AttributeError:  # a subclass did not call super().__init__
            self._previous = [tls.grad]
        set_grad_mode(self.enabled)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._previous[-1]:
            tls.grad = True  # See Note [Ctrl-C and grad mode]
        set_grad_mode(self._previous.pop())

    def _again(self) -> _GradMode:
        """Return a new context manager for a call of a decorated function, as calls may overlap."""
        return type(self)()

    def __call__(self, function: F) -> F:
        if inspect.isgeneratorfunction(function):
            return _around_steps(function, self._again)  # type: ignore[return-value]

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


def _around_steps(
    function: Callable[..., Any], mode: Callable[[], _GradMode]
) -> Callable[..., Any]:
    """Return a generator function whose body runs inside a mode. The mode is restored at each
    `yield`, so the caller's code runs outside of it.
    """

    @functools.wraps(function)
    def steps(*args: Any, **kwargs: Any) -> Any:
        with mode():
            generator = function(*args, **kwargs)
        resume: Callable[[], Any] = functools.partial(next, generator)
        while True:
            try:
                with mode():
                    value = resume()
            except StopIteration as end:
                return end.value
            try:
                resume = functools.partial(generator.send, (yield value))
            except GeneratorExit:
                with mode():
                    generator.close()
                raise
            except BaseException as error:
                resume = functools.partial(generator.throw, error)

    return steps


class _BareDecorator(_GradMode):
    """A mode that is a decorator both with and without parentheses: `@no_grad` and `@no_grad()`."""

    @overload
    def __new__(cls, function: bool | None = None, **options: bool) -> Self: ...
    @overload
    def __new__(cls, function: Callable[..., Any]) -> Any: ...
    def __new__(cls, function: Any = None, **options: bool) -> Any:
        return cls()(function) if callable(function) else super().__new__(cls)


class no_grad(_BareDecorator):
    """Do not record ops in this thread inside a `with` block.

    Results of ops in the block do not require grad. As a decorator, `no_grad` opens such a block
    around each call of the function.

    Args:
        function: A function to decorate; None in a `with` statement.
        **options: No options exist; a keyword argument raises TypeError.

    Threads: each thread has its own mode

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    enabled = False


class enable_grad(_BareDecorator):
    """Record ops in this thread inside a `with` block, even if that is within `no_grad`.

    Args:
        function: A function to decorate; None in a `with` statement.
        **options: No options exist; a keyword argument raises TypeError.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.no_grad(), torch.enable_grad():
        ...     (x * 2).requires_grad
        True
    """


class set_grad_enabled(_GradMode):
    """Switch recording on or off in this thread: from now on, or inside a `with` block.

    Args:
        mode: Whether to record.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.set_grad_enabled(False):
        ...     (x * 2).requires_grad
        False
    """

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self._before = tls.grad
        self.enabled = bool(mode)
        set_grad_mode(self.enabled)

    def __enter__(self) -> None:
        self._previous.append(self._before)
        set_grad_mode(self.enabled)

    def _again(self) -> _GradMode:
        return set_grad_enabled(self.enabled)

    def __call__(self, function: F) -> F:
        # As a decorator, the mode applies only to the function: undo the switch in `__init__`.
        set_grad_mode(self._before)
        return super().__call__(function)


class inference_mode(_BareDecorator):
    """Do not record ops in this thread inside a `with` block.

    `inference_mode(False)` does not change whether ops are recorded.

    Note    results are ordinary tensors, unlike PyTorch's inference tensors: later ops that are
            recorded may use them

    Args:
        mode: Whether to switch recording off.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.inference_mode():
        ...     (x * 2).requires_grad
        False
    """

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._mode = mode
        self._outside: list[bool] = []

    def __enter__(self) -> None:
        self._outside.append(tls.inference)
        self._previous.append(tls.grad)
        set_grad_mode(tls.grad and not self._mode)
        tls.inference = self._mode  # last, so that an earlier Ctrl-C leaves it unchanged

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        tls.inference = self._outside[-1]  # first, because a Ctrl-C may interrupt any later call
        if self._previous[-1]:
            tls.grad = True  # See Note [Ctrl-C and grad mode]
        try:
            self._outside.pop()
        finally:
            super().__exit__(kind, error, trace)

    def _again(self) -> _GradMode:
        return inference_mode(self._mode)

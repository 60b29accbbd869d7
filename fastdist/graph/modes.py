"""Grad mode, and the one flag that tells a call whether any mode is active."""

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
    """Flags that every op reads on its shortest path: attributes of one slotted object, 6 ns each.

    `special` counts what sends ops down the general path: tracers, open forward levels, mirrors of
    remote levels. `tracers` counts tracers, which see every op. `timed` counts the profiles among
    them; it is 0 while a profile records more than names and times. `grad_off` counts threads with
    grad mode off: the flag of the thread is read only while it is not 0. `plain` has the classes of
    plain tensors while `special` is 0, and is empty otherwise, so that a function with a shorter
    path for plain tensors makes a single look-up.
    """

    __slots__ = ("grad_off", "plain", "special", "timed", "tracers")

    def __init__(self) -> None:
        self.special = 0
        self.plain: frozenset[Any] = frozenset()
        self.tracers = 0
        self.timed = 0
        self.grad_off = 0


# Public state of the inline pass that a thread is in: its roots, (edge, gradient) each; the
# callbacks for its end; and the Nodes that a pass with chosen inputs reaches, None where it reaches
# all. A plain tuple: a named one would cost a small pass 3 % of its time.
InlinePass: TypeAlias = (
    "tuple[Sequence[tuple[Any, Any]], list[Callable[[], None]], Container[Any] | None]"
)


class _ThreadModes(threading.local):
    grad = True
    inference = False  # inside of a block of inference_mode
    # Whether `modes.grad_off` counts this thread. A thread with grad mode off is always counted;
    # after a Ctrl-C one may be counted for longer than needed, which costs only a read of the flag.
    is_counted = False
    # None outside of an inline pass.
    inline_pass: InlinePass | None = None
    # Nodes of the tensors by which a function is differentiated (transform_inputs.py).
    transform_inputs: tuple[Any, ...] = ()


# Note [Ctrl-C and grad mode]
# Python raises KeyboardInterrupt when it calls a function, returns from a C function or repeats a
# loop, never at a plain assignment. Code that switches grad mode off temporarily therefore does so
# inside `try`. In `finally` it first assigns `tls.grad = True`, if it was on, before any call:
# otherwise a Ctrl-C at that call would leave recording off in the main thread.
modes = _Modes()
tls = _ThreadModes()
_modes_lock = threading.Lock()
renew_in_children(sys.modules[__name__], "_modes_lock")


_NONE: Final = frozenset[Any]()
_plain_classes = _NONE


def set_plain_classes(classes: frozenset[Any]) -> None:
    """Let tensors of these classes be the plain ones."""
    global _plain_classes
    _plain_classes = classes
    count_special(0)


def count_special(change: int) -> None:
    """Notify the ops that `change` more (or fewer) modes are active."""
    with _modes_lock:
        modes.plain = _NONE
        modes.special += change
        if not modes.special:
            modes.plain = _plain_classes


def count_tracers(change: int) -> None:
    """Notify the ops that `change` more (or fewer) tracers want to see every call; they are special
    as well.
    """
    with _modes_lock:
        # In this order: `special` is never less than the tracers and the forward levels together.
        modes.plain = _NONE
        if change > 0:
            modes.special += change
        modes.tracers += change
        if change < 0:
            modes.special += change
        if not modes.special:
            modes.plain = _plain_classes


def runs_plain() -> bool:
    """Return whether calls on plain tensors in this thread run directly: no interpreter gets them,
    and no tangent exists.

    Note    called where modes.special is not zero
    """
    return modes.special == modes.tracers and not see_plain(open_interpreters())


def may_be_differentiated() -> bool:
    """Return whether derivatives of a result of this thread may be needed: grad mode is on, a
    tangent exists, or an interpreter may see the call.
    """
    return tls.grad or modes.special > 0


class Counted(Protocol):
    """A thread's number of open objects, which `count_open` maintains."""

    counted: int


def count_open(thread: Counted, number: int) -> None:
    """Register how many objects that want to see every call are open in a thread. A count that a
    Ctrl-C left wrong is corrected by the next call.
    """
    with _modes_lock:
        # Assignments alone: no Ctrl-C can interrupt between them.
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
    """Return whether ops of this thread record.

    Example:
        >>> torch.is_grad_enabled()
        True
    """
    return tls.grad


def is_inference_mode_enabled() -> bool:
    """Return whether this thread is inside of a block of inference_mode."""
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
    """A context manager and decorator that sets grad mode and puts the earlier one back."""

    enabled = True

    def __init__(self) -> None:
        # A stack: one object may be entered again before it is left, as a decorator on a recursive
        # function is.
        self._previous: list[bool] = []

    def __enter__(self) -> None:
        try:
            self._previous.append(tls.grad)
        except AttributeError:  # a subclass that skips __init__
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
        """Return a new context for a call of a decorated function, because calls may overlap."""
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
    """Return a generator function whose steps run inside of a mode, and whose caller does not."""

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
    """A mode that decorates without brackets as well."""

    @overload
    def __new__(cls, function: bool | None = None, **options: bool) -> Self: ...
    @overload
    def __new__(cls, function: Callable[..., Any]) -> Any: ...
    def __new__(cls, function: Any = None, **options: bool) -> Any:
        return cls()(function) if callable(function) else super().__new__(cls)


class no_grad(_BareDecorator):
    """Do not record inside this block, in this thread.

    Results of ops in the block do not require grad. As a decorator it opens the block around each
    call.

    Args:
        function: A function to decorate; None for a block.

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
    """Record inside this block, even within no_grad, in this thread.

    Args:
        function: A function to decorate; None for a block.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.no_grad(), torch.enable_grad():
        ...     (x * 2).requires_grad
        True
    """


class set_grad_enabled(_GradMode):
    """Switch recording on or off in this thread: from now on, or for a block if used with `with`.

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
        # As a decorator it applies to the function alone: the switch made by __init__ is reverted.
        set_grad_mode(self._before)
        return super().__call__(function)


class inference_mode(_BareDecorator):
    """Do not record inside this block, in this thread; inference_mode(False) is an ordinary block.

    Note    results are ordinary tensors, unlike PyTorch's inference tensors: they may be used in
            recorded work later

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
        tls.inference = self._mode  # last: Ctrl-C before it leaves both modes unchanged

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        tls.inference = self._outside[-1]  # before any call, where Ctrl-C may be raised
        if self._previous[-1]:
            tls.grad = True  # See Note [Ctrl-C and grad mode]
        try:
            self._outside.pop()
        finally:
            super().__exit__(kind, error, trace)

    def _again(self) -> _GradMode:
        return inference_mode(self._mode)

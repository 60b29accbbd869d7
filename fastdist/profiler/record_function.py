"""`record_function`: names a block or a function of the program in profiles."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from ..concurrency.future import Future
from ..instrumentation.time_ranges import time_range

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class record_function:
    """A named range of time in the program: a context for a block, or a function's decorator."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        # A list is used as a stack, because one object may be entered again before it exits.
        self._open: list[time_range] = []

    def __enter__(self) -> Self:
        self._open.append(time_range(self.name, "user"))
        self._open[-1].__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.pop().__exit__(kind, error, trace)

    def _call_end_callbacks_on_future(self, fut: Future[T]) -> Future[T]:
        """End the range when a Future is done, instead of at the end of the block. Return another
        Future that is done after the end of the range.

        Raises  RuntimeError outside of the block, and for a second call in the same block
        Note    a range that ends in another thread is asynchronous, and contains no events
        """
        opened = self._open[-1] if self._open else None
        if opened is None or opened.is_left_open:
            raise RuntimeError(
                "_call_end_callbacks_on_future can only be called once. It was called already in "
                f"this block of record_function({self.name!r}), or outside of any"
            )
        opened.leave_open()

        def end(done: Future[T]) -> T:
            opened.end_elsewhere()
            return done.value()

        return fut.then(end)

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]

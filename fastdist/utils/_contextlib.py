"""Context managers that also decorate functions, under PyTorch's private names."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Self, TypeVar

from ..core.missing import explain_missing

F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["context_decorator"]


def context_decorator(ctx: Any, func: F) -> F:
    """Return a function that calls `func` inside a context.

    Args:
        ctx: A context manager that can be entered repeatedly, or a function that returns a new
            context manager.
        func: The function. The code of a generator function runs inside the context, and the code
            of its caller outside of the context.

    Raises  RuntimeError if `ctx` is both a context manager and callable
    """
    is_manager = hasattr(ctx, "__enter__") and hasattr(ctx, "__exit__")
    if is_manager and callable(ctx):
        raise RuntimeError(
            f"Passed in {ctx} is both callable and also a valid context manager (has both "
            "__enter__ and __exit__), making it ambiguous which interface to use. If you intended "
            "to pass a context manager factory, rewrite your call as context_decorator(lambda: "
            "ctx()); if you intended to pass a context manager directly, rewrite your call as "
            "context_decorator(lambda: ctx)"
        )
    new = ctx if not is_manager else lambda: ctx
    if inspect.isgeneratorfunction(func):
        return _around_generator(new, func)

    @functools.wraps(func)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with new():
            return func(*args, **kwargs)

    return inside  # type: ignore[return-value]


def _around_generator(new: Callable[[], Any], func: F) -> F:
    @functools.wraps(func)
    def inside(*args: Any, **kwargs: Any) -> Any:
        # Exit the context before each yield, because the caller's code runs next.
        steps = func(*args, **kwargs)
        step: Callable[[], Any] = functools.partial(next, steps)
        try:
            while True:
                try:
                    with new():
                        value = step()
                except StopIteration as end:
                    return end.value
                try:
                    sent = yield value
                except GeneratorExit:
                    with new():
                        steps.close()
                    raise
                except BaseException as error:
                    step = functools.partial(steps.throw, error)
                else:
                    step = functools.partial(steps.send, sent)
        finally:
            steps.close()

    return inside  # type: ignore[return-value]


class _DecoratorContextManager:
    """Base class of context managers that decorate functions. Each call runs in a new clone()."""

    def __call__(self, orig_func: F) -> F:
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __enter__")

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __exit__")

    def clone(self) -> Self:
        """Return a new instance. A class whose __init__ has parameters must override `clone`."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """Base class of context managers without parameters. The decorator can be written with or
    without parentheses.
    """

    def __new__(cls, orig_func: Any = None) -> Any:
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)


explain_missing(__name__)

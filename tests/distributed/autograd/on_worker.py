"""A decorator for tests whose body runs in a worker of the test file's group."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.distributed.workers import Group


def on_worker(rank: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that makes a test run in worker `rank` of the fixture `group`.

    Workers load the test's file, look up the function by name, and call the undecorated function.
    """

    def make(body: Callable[..., None]) -> Callable[..., None]:
        names = list(inspect.signature(body).parameters)

        @functools.wraps(body)
        def test(*args: Any, group: Group | None = None, **kwargs: Any) -> None:
            if group is None:
                body(*args)
            else:
                group[rank].run(test, *[kwargs[name] for name in names])

        kind = inspect.Parameter.KEYWORD_ONLY
        test.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, kind) for name in [*names, "group"]]
        )
        return test

    return make


def outside(function: Callable[..., Any], *args: Any) -> Any:
    """Call function(*args) in a thread that has no context."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *args).result(30)

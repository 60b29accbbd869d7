"""`wait_for_calls`: a `with` block that waits for the calls that its thread makes in the block."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from fastdist.concurrency.future import Future, wait_all

# `future_list` of a thread: the Futures of its open wait_for_calls block.
futures_of_block = threading.local()


@contextmanager
def wait_for_calls() -> Iterator[None]:
    """At the end of the block, wait for all Futures that rpc_async gave this thread in the block.

    A nested block waits only for its own Futures.

    Raises  the error of the block itself, with the errors of its calls as notes; else the first
            error of a call
    """
    outer = getattr(futures_of_block, "future_list", None)
    futures: list[Future[Any]] = []
    futures_of_block.future_list = futures
    try:
        try:
            yield
        finally:
            if outer is None:
                del futures_of_block.future_list
            else:
                futures_of_block.future_list = outer
    except Exception as error:
        for failed in _errors_of(futures):
            error.add_note(f"and a call of the block failed: {type(failed).__name__}: {failed}")
        raise
    wait_all(futures)


def _errors_of(futures: Iterable[Future[Any]]) -> list[BaseException]:
    for future in futures:
        future.wait_until_done()
    return [error for future in futures if (error := future.exception()) is not None]

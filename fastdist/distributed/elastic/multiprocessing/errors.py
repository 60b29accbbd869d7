"""Errors of a job's workers, under the names of PyTorch's elastic launcher."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ....core.missing import explain_missing

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclasses.dataclass
class ProcessFailure:
    """The failure of a worker: its rank, process, exit code, and the path of its error file."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: Any = None
    message: str = ""
    timestamp: int = dataclasses.field(default_factory=lambda: int(time.time()))


class ChildFailedError(Exception):
    """Workers of a job failed.

    Args:
        name: The job's name.
        failures: The failure of each worker that failed, by rank.
    """

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        if not failures:
            raise ValueError("ChildFailedError needs at least one failure")
        self.name = name
        self.failures = failures
        super().__init__(f"{name} FAILED: workers {sorted(failures)}")

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """Return the rank and the failure of the worker that failed first."""
        rank = min(self.failures, key=lambda one: self.failures[one].timestamp)
        return rank, self.failures[rank]


class ErrorHandler:
    """The handler of a worker's errors; it does nothing, because the launcher reads the output."""

    def initialize(self) -> None:
        """Do nothing."""

    def record_exception(self, e: BaseException) -> None:
        """Do nothing: the worker's traceback is in its output, which the launcher shows."""


def get_error_handler() -> ErrorHandler:
    """Return the handler of this process."""
    return ErrorHandler()


def record(fn: _F, error_handler: ErrorHandler | None = None) -> _F:
    """Return a wrapper of the function that passes errors to a handler before it raises them.

    Args:
        fn: The entry point of a worker.
        error_handler: The handler; by default this process's handler.
    """
    handler = error_handler or get_error_handler()
    handler.initialize()

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            handler.record_exception(error)
            raise

    return run  # type: ignore[return-value]


explain_missing(__name__)

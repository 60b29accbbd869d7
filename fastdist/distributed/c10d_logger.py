"""Decorators that log errors of collectives, for code that imports them from PyTorch."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ..core.missing import show_public
from . import distributed_c10d as c10d

__all__: list[str] = []

P = ParamSpec("P")
T = TypeVar("T")

_c10d_logger = logging.getLogger("fastdist.distributed.c10d")
_c10d_logger.addHandler(logging.NullHandler())


def _get_or_create_logger(destination: str = "default") -> logging.Logger:
    """Return the logger for errors; all destinations share one."""
    del destination
    return _c10d_logger


def _get_msg_dict(func_name: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the data to log about a call: its function, and this process's ranks."""
    if not c10d.is_initialized():
        return {"func_name": func_name}
    group = kwargs.get("group") or kwargs.get("process_group")
    return {
        "func_name": func_name,
        "pg_name": c10d._get_process_group_name(kwargs.get("pg")),
        "backend": c10d.get_backend(group),
        "world_size": str(c10d.get_world_size()),
        "group_size": str(c10d.get_world_size(group)),
        "global_rank": str(c10d.get_rank()),
        "local_rank": str(c10d.get_rank(group)),
    }


def _exception_logger(func: Callable[P, T]) -> Callable[P, T]:
    """Return a wrapper that logs an exception of the function at DEBUG, and raises it again."""

    @functools.wraps(func)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return func(*args, **kwargs)
        except Exception as error:
            _c10d_logger.debug({**_get_msg_dict(func.__name__, **kwargs), "error": str(error)})
            raise

    return wrapper


def _time_logger(func: Callable[P, T]) -> Callable[P, T]:
    """Return the function unchanged: a log is not needed, as profiles have the calls' durations."""
    return func


show_public(__name__)

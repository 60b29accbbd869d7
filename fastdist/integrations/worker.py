"""One life of one worker: its environment, its function and its outcome."""

from __future__ import annotations

import os
import pickle
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from fastdist.core.errors import EngineError, FastdistError, RpcError
from fastdist.distributed import restarts
from fastdist.launch.environment import (
    ALLOW_RESTART,
    MAX_RESTARTS,
    RUN_ID,
    Place,
    worker_environment,
)
from fastdist.launch.options import usable_cores

_SECRET_FILE = "FASTDIST_JOB_SECRET_FILE"
_SECRET_TEXT = "FASTDIST_JOB_SECRET"


@dataclass(frozen=True)
class Whereabouts:
    """The location of an engine's process: the process id, and a name that only its node has."""

    pid: int
    node: str

    @classmethod
    def here(cls) -> Whereabouts:
        """Return the location of this process."""
        return cls(os.getpid(), socket.gethostname())


@dataclass(frozen=True)
class Life:
    """The data with which a process becomes a worker: the rank, the number of restarts, and the
    group's store, secret and restart policy.

    `restart` is "worker" if only lost workers are restarted, or "group" if all workers are.
    `settings` are environment variables of the driver. `secret` is hexadecimal, or None if security
    is off.
    """

    place: Place
    local_rank: int
    restart_count: int
    run_id: str
    restart: str
    max_restarts: int
    settings: Mapping[str, str]
    secret: str | None = field(repr=False)

    @property
    def rank(self) -> int:
        """The rank of the worker."""
        return self.place.first_rank + self.local_rank


@dataclass(frozen=True)
class Outcome:
    """The end of a life: the function's `value`, or a traceback as text in `failure` and the
    exception in `error`.

    `error` is None if the exception cannot be pickled. If `is_lost` is true, the process has ended
    or cannot be reached, and `failure` says how this was detected.
    """

    value: Any = None
    failure: str | None = None
    error: BaseException | None = None
    is_lost: bool = False


# Held while this process is a worker. It cannot be two workers at a time, because it has only one
# environment and one RPC agent.
_is_worker = threading.Lock()


@contextmanager
def environment_of(life: Life) -> Iterator[None]:
    """Make this process the worker that a life describes; restore its environment afterwards.

    Raises  EngineError if this process is a worker already
    """
    if not _is_worker.acquire(blocking=False):
        raise EngineError(
            f"process {os.getpid()} on {socket.gethostname()} is rank {os.environ.get('RANK')} of "
            f"another group already, and cannot be rank {life.rank} of this one: a process is one "
            "worker (in Dask: LocalCluster(processes=True), and one group at a time)"
        )
    before, secret_fd = dict(os.environ), None
    try:
        job = {**life.settings, RUN_ID: life.run_id, MAX_RESTARTS: str(life.max_restarts)}
        if life.restart == "worker":
            job[ALLOW_RESTART] = "worker"
        if life.secret is not None:
            secret_fd = _in_memory(life.secret)
            job[_SECRET_FILE] = f"/proc/{os.getpid()}/fd/{secret_fd}"
        variables = worker_environment(
            before,
            life.place,
            life.local_rank,
            threads=max(1, usable_cores() // life.place.local_world_size),
            terminal_width=None,
            restart_count=life.restart_count,
            gpus=None,
            job=job,
        )
        variables.pop(_SECRET_TEXT, None)
        _begin_life()
        _change_environment(variables)
        yield
    finally:
        _change_environment(before)
        if secret_fd is not None:
            os.close(secret_fd)
        _is_worker.release()


def _begin_life() -> None:
    """Clear the state of an earlier life in this process.

    Raises  EngineError if the earlier life's function has left RPC or process groups open
    """
    init = sys.modules.get("fastdist.distributed.rpc.init")
    groups = sys.modules.get("fastdist.distributed.distributed_c10d")
    if groups is not None and groups.is_initialized():
        raise EngineError(
            "an earlier function has left its process group open in this process: let it call "
            "dist.destroy_process_group()"
        )
    if init is not None:
        try:
            init.begin_life()
        except RpcError as error:
            raise EngineError(f"an earlier function has left RPC open: {error}") from error
    restarts.begin_life()


def _change_environment(variables: Mapping[str, str]) -> None:
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    for name, value in variables.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _in_memory(text: str) -> int:
    """Return a descriptor of an unnamed file in memory with this text, which only this user may
    read.

    Note  processes that the worker starts read the file through /proc. The file disappears when the
          worker ends, even by SIGKILL, so nothing is left on a disk
    """
    fd = os.memfd_create("fastdist-job-secret", os.MFD_CLOEXEC)
    try:
        os.fchmod(fd, 0o600)
        os.write(fd, text.encode("ascii"))
    except BaseException:
        os.close(fd)
        raise
    return fd


def live(life: Life, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome:
    """Run function(*arguments) as the worker of a life, and return the outcome.

    If the function raises, open RPC and process groups are closed immediately. Other workers then
    get an error that names this worker, instead of waiting for it.
    """
    try:
        with environment_of(life):
            try:
                return Outcome(function(*arguments))
            except BaseException:
                _leave_at_once()
                raise
    except SystemExit as error:
        if error.code in (None, 0):
            return Outcome()
        return Outcome(failure=_text_of(error), error=error)
    except BaseException as error:
        return Outcome(failure=_text_of(error), error=error if _pickles(error) else None)


def _text_of(error: BaseException) -> str:
    """Return the traceback as text, without the frames of this file before the function's."""
    tb = error.__traceback__
    while tb is not None and tb.tb_next is not None and tb.tb_frame.f_code.co_filename == __file__:
        tb = tb.tb_next
    return "".join(traceback.format_exception(type(error), error, tb)).rstrip()


def _leave_at_once() -> None:
    """Close RPC and process groups of this process, if any, without waiting for other workers."""
    rpc = sys.modules.get("fastdist.distributed.rpc")
    groups = sys.modules.get("fastdist.distributed.distributed_c10d")
    if rpc is not None:
        with suppress(FastdistError, RuntimeError):
            rpc.shutdown(graceful=False)
    if groups is not None and groups.is_initialized():
        with suppress(FastdistError, RuntimeError):
            groups.destroy_process_group()


def _pickles(error: BaseException) -> bool:
    try:
        return isinstance(pickle.loads(pickle.dumps(error)), type(error))
    except Exception:
        return False

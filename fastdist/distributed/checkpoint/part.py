"""A worker's part in saving and loading, at the request of the coordinator or of itself."""

# Note [Two calls for a save, two for a load] `begin_part` returns after the state was checked, and
# copied if the save is asynchronous. A thread writes the state to a file, and `finish_part` returns
# the contents of that file. `read_part` reads files and compares them with the present state;
# `apply_part` then changes the state. So if one worker cannot read its part, no worker has changed
# anything. If the coordinator dies between the two calls, the unfinished save or load is kept until
# later saves or loads replace it.

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence

from ...concurrency.future import Future, InternalFuture
from .. import rpc
from ..rpc.functions import async_execution
from .contents import Thing, contents
from .errors import CheckpointException
from .metadata import FileRow
from .reading import readied
from .shard_file import write_shard
from .snapshot import Kept, Snapshot, snapshot

_FILE = re.compile(r"\.?[0-9a-f]{16}-\d+\.pt(\.[0-9a-f]+\.tmp)?")
_MOST_FORGOTTEN = 16

# Guards the two fields below. `_turn_lock` is acquired before this lock, and held while a part is
# copied: if two saves run on one worker, the second copies its part after the first has been
# written.
_parts_lock = threading.Lock()
_writes: dict[str, Future[FileRow]] = {}
_reads: dict[str, list[Callable[[], object]]] = {}
_turn_lock = threading.Lock()
_kept: Kept = {}


def is_part(name: str) -> bool:
    """Return whether a file has the name of a worker's part, complete or incomplete."""
    return _FILE.fullmatch(name) is not None


@rpc.export
def begin_part(
    session: str, folder: str, things: Sequence[Thing], copies: bool, keeps: bool
) -> None:
    """Take a snapshot of local entries, and start to write it.

    Raises  the errors of snapshot; OSError if the folder cannot be created
    """
    with _turn_lock:
        for earlier in _of_now():
            # an error of the earlier write is raised in its own `finish_part`
            earlier.wait_until_done()
        os.makedirs(folder, exist_ok=True)
        kept = _kept if copies and keeps else None
        if not keeps:
            _kept.clear()
        taken = snapshot(contents([thing.here() for thing in things]), copies=copies, kept=kept)
        worker_id, worker = own_name()
        written: Future[FileRow] = InternalFuture()
        with _parts_lock:
            while len(_writes) >= _MOST_FORGOTTEN:
                del _writes[next(iter(_writes))]
            _writes[session] = written
        # The thread is not a daemon, so the program does not exit before the checkpoint is written.
        threading.Thread(
            # The name is looked up now, because RPC may have ended when the write ends.
            target=_write,
            args=(f"{session}-{worker_id}.pt", worker, folder, taken, written),
            name="fastdist-checkpoint-part",
        ).start()


def _of_now() -> list[Future[FileRow]]:
    with _parts_lock:
        return [future for future in _writes.values() if not future.done()]


def _write(name: str, worker: str, folder: str, taken: Snapshot, written: Future[FileRow]) -> None:
    try:
        path = os.path.join(folder, name)
        checksums = write_shard(path, taken.tensors, taken.values)
        # Release the copies before `written` is completed: the next save needs as much memory, and
        # the release takes time.
        taken.tensors.clear()
        row = taken.row(name, os.stat(path).st_size, worker, checksums)
    except BaseException as error:
        note = f"while the worker {worker!r} wrote its part of the checkpoint {folder!r}"
        if isinstance(error, OSError) and error.errno is not None and error.strerror:
            # The note is also added to the text, because notes of an error are not always shown.
            said = type(error)(error.errno, f"{error.strerror}; {note}", error.filename)
            error = said.with_traceback(error.__traceback__)
        error.add_note(f"{note}, which is not there now")
        written.set_exception(error)
    else:
        written.set_result(row)


def own_name() -> tuple[int, str]:
    """Return this worker's id and name; a process without RPC is worker 0."""
    if not rpc._is_current_rpc_agent_set():
        return 0, "worker0"
    info = rpc.get_worker_info()
    return info.id, info.name


@rpc.export
@async_execution
def finish_part(session: str) -> Future[FileRow]:
    """Return a Future of the file's description, which is done when the file is on the disk.

    Raises  OSError if the disk is full
    """
    with _parts_lock:
        written = _writes.pop(session, None)
    if written is None:
        raise CheckpointException(f"the worker {own_name()[1]!r} does not know the save {session}")
    return written


@rpc.export
def read_part(session: str, folder: str, things: Sequence[Thing], allow_partial: bool) -> None:
    """Read a checkpoint's values for local entries, without changing anything yet.

    Raises  CheckpointException, ShapeError or DTypeError if a value is damaged, missing or
            different
    """
    steps = readied(folder, [thing.here() for thing in things], allow_partial=allow_partial)
    with _parts_lock:
        while len(_reads) >= _MOST_FORGOTTEN:
            del _reads[next(iter(_reads))]
        _reads[session] = steps


@rpc.export
def apply_part(session: str, is_for_all: bool) -> None:
    """Apply the values that read_part has read, or drop them if another worker's read failed."""
    with _parts_lock:
        steps = _reads.pop(session, [])
    if is_for_all:
        for step in steps:
            step()

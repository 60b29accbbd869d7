"""`save` and `async_save`: write all parts of a checkpoint, then publish it atomically."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...concurrency.future import Future, outcomes
from ...core.folded_frames import fold_public
from .. import rpc
from .contents import planned
from .errors import CheckpointException
from .filesystem import FileSystemWriter, Where, chosen
from .folder import (
    FolderLock,
    after_all,
    keep_newest,
    make_folder,
    remove_if_empty,
    remove_leftovers,
)
from .manifest import read_manifest, write_manifest
from .manifest import saved_at as saved_at_of
from .metadata import FileRow, Metadata, merged
from .part import begin_part, finish_part, own_name
from .together import Together, require_group

# Guards _latest, the most recent save of this process.
_latest_lock = threading.Lock()
_latest: Future[Metadata] | None = None


def save(
    state_dict: Mapping[str, Any],
    *,
    checkpoint_id: Where | None = None,
    storage_writer: FileSystemWriter | None = None,
    process_group: Sequence[str] | None = None,
    keep: int | None = None,
) -> Metadata:
    """Write a checkpoint into the folder checkpoint_id; return when all of it is on the disk.

    A state dict contains tensors, ShardedTensors, numbers and text, dicts, lists and tuples of
    these, and objects with state_dict() and load_state_dict(). An RRef stands for its value, and a
    list of RRefs for the parts of one object. A DistributedOptimizer stands for the optimisers of
    all its owners. Each owner writes its part. The workers in `process_group` all call save for one
    common checkpoint; without `process_group`, only this worker calls save. The `keep` newest
    checkpoints stay in the parent folder; older ones are removed.

    Thread  any; waits for an earlier save of this process
    Raises  CheckpointException if parts do not fit together, or a worker of the group did not join;
            TypeError for a value that could not be loaded; OSError if the disk is full;
            WorkerLostError if a worker died. After an error the folder contains what it had before

    Args:
        state_dict: The values, by name.
        checkpoint_id: The path of the folder; the folder of storage_writer if None.
        storage_writer: A FileSystemWriter with further options.
        process_group: The names of the workers that save together; only this worker if None.
        keep: The number of newest checkpoints to keep in the parent folder; all if None.
    """
    writer = chosen("save", FileSystemWriter, checkpoint_id, storage_writer)
    begun = _Save(state_dict, writer, process_group, keep, is_async=False)
    begun.complete()
    return begun.done.wait()


def async_save(
    state_dict: Mapping[str, Any],
    *,
    checkpoint_id: Where | None = None,
    storage_writer: FileSystemWriter | None = None,
    process_group: Sequence[str] | None = None,
    keep: int | None = None,
) -> Future[Metadata]:
    """Copy the state, and write it in the background; otherwise like save.

    It returns when all owners have copied their parts: later changes are not in the checkpoint. The
    Future is done when the checkpoint exists, or has the error. While an earlier save of this
    process runs, async_save waits for its end, and only then copies the state.

    Raises  errors in the state dict; all other errors are in the Future
    Note    if other workers take part, wait for the Future before rpc.shutdown()

    Args:
        state_dict: The values, by name.
        checkpoint_id: The path of the folder; the folder of storage_writer if None.
        storage_writer: A FileSystemWriter with further options.
        process_group: The names of the workers that save together; only this worker if None.
        keep: The number of newest checkpoints to keep in the parent folder; all if None.
    """
    writer = chosen("async_save", FileSystemWriter, checkpoint_id, storage_writer)
    begun = _Save(state_dict, writer, process_group, keep, is_async=True)
    threading.Thread(target=begun.complete, name="fastdist-checkpoint").start()
    return begun.done


class _Save:
    """A save under way. The constructor begins it, and returns when the state has been copied."""

    def __init__(
        self,
        state_dict: Mapping[str, Any],
        writer: FileSystemWriter,
        process_group: Sequence[str] | None,
        keep: int | None,
        *,
        is_async: bool,
    ) -> None:
        if keep is not None and (type(keep) is not int or keep < 1):
            raise ValueError(f"keep={keep!r}: at least 1, which is this checkpoint itself")
        plan = planned(state_dict)
        group = require_group(process_group) if process_group is not None else ()
        self._writer, self._keep = writer, keep
        self._folder = writer.checkpoint_id
        self._session = secrets.token_hex(8)
        self._lock = FolderLock(self._folder)
        self._owners: list[str] = []
        self._is_here = False
        self.done: Future[Metadata] = Future()
        self._together: Together | None = None
        _await_earlier(self.done)
        try:
            if len(group) > 1:
                self._together = Together(group, self._folder)
            self._begin(plan.here, plan.there, is_async=is_async)
        except BaseException as error:
            self._fail(error)
            self.done.was_read()  # the error is raised here
            raise

    @property
    def _is_coordinator(self) -> bool:
        return self._together is None or self._together.is_first

    def _begin(self, here: list[Any], there: dict[str, list[Any]], *, is_async: bool) -> None:
        make_folder(self._folder)
        if self._is_coordinator:
            self._lock.__enter__()
            self._require_own()
        if self._together is not None:
            self._together.come()
        keeps = self._writer.cache_staged_state_dict
        folder = os.path.abspath(self._folder)
        begun = {
            owner: rpc.rpc_async(
                owner, begin_part, (self._session, folder, things, is_async, keeps), timeout=0
            )
            for owner, things in there.items()
        }
        try:
            if here or not there:
                begin_part(self._session, folder, here, is_async, keeps)
                self._is_here = True
        finally:
            try:
                outcomes([*begun.values()])
            finally:
                self._owners = [o for o, future in begun.items() if future.exception() is None]

    def _require_own(self) -> None:
        if self._writer.overwrite or saved_at_of(self._folder) is None:
            return
        try:
            theirs, own = read_manifest(self._folder).coordinator, own_name()[1]
        except CheckpointException:
            return  # a damaged checkpoint may be overwritten
        if self._writer.overwrite is False or theirs != own:
            raise CheckpointException(
                f"there is a checkpoint in {self._folder!r} already, saved by {theirs!r}, and "
                f"this is {own!r}: give another checkpoint_id, or "
                "storage_writer=FileSystemWriter(FOLDER, overwrite=True); workers that save one "
                "checkpoint together pass process_group=[THEIR NAMES]"
            )

    def complete(self) -> None:
        """Wait for all parts, publish the checkpoint, and complete `done`."""
        try:
            rows = self._own_rows()
            if self._together is None or self._together.is_first:
                others = self._together.gathered() if self._together is not None else []
                found = self._commit([*rows, *others])
            else:
                self._together.tell_parts(rows, None)
                self._together.await_first()
                found = read_manifest(self._folder)
        except BaseException as error:
            self._fail(error)
            if not isinstance(error, Exception):
                raise
        else:
            self._lock.__exit__(None, None, None)
            if self._together is not None:
                self._together.tell_outcome(None)
            self.done.set_result(found)

    def _own_rows(self) -> list[FileRow]:
        """Return the rows of the files that this worker, and the owners that it called, wrote."""
        owners, self._owners = self._owners, []
        is_here, self._is_here = self._is_here, False
        futures = [rpc.rpc_async(o, finish_part, (self._session,), timeout=0) for o in owners]
        if is_here:
            futures.append(finish_part(self._session))
        return outcomes(futures)

    def _commit(self, rows: list[FileRow]) -> Metadata:
        now = after_all(self._folder, time.time_ns())
        metadata = merged(rows, own_name()[1], now)
        for name, size in metadata.files.items():
            path = os.path.join(self._folder, name)
            if not os.path.exists(path) or os.stat(path).st_size != size:
                raise CheckpointException(
                    f"the worker {metadata.workers[name]!r} wrote {name}, {size} bytes, and it is "
                    f"not in {self._folder!r} here: a checkpoint needs a folder that all its "
                    "workers see under the same path"
                )
        write_manifest(self._folder, metadata)
        try:
            remove_leftovers(self._folder, metadata)
            if self._keep is not None:
                keep_newest(self._folder, self._keep)
        except OSError as error:
            error.add_note(
                f"the checkpoint {self._folder!r} is complete, but older files could not be removed"
            )
            raise
        return metadata

    def _fail(self, error: BaseException) -> None:
        """Report the error to all workers, and remove the files that were written."""
        # The called workers may still be writing: wait for them before their files are removed.
        _note(error, self._own_rows)
        _note(error, self._tidy_up)
        self._lock.__exit__(None, None, None)
        if self._together is not None:
            self._together.tell_parts(None, error)
            if self._together.is_first:
                self._together.tell_outcome(error)
            else:
                # Wait until the first worker has ended, so that its removal of files does not
                # remove files of this worker's next save.
                _note(error, self._together.await_first)
        self.done.try_complete(error=error)

    def _tidy_up(self) -> None:
        """Remove this worker's files of a failed save. If this call is the last, so that no worker
        can still be writing, remove the files of all workers.
        """
        there = None if saved_at_of(self._folder) is None else read_manifest(self._folder)
        is_last = self._lock.is_held and (self._together is None or self._together.has_gathered)
        remove_leftovers(self._folder, there, "" if is_last else self._session)
        if is_last:
            remove_if_empty(self._folder)


def _note(error: BaseException, work: Callable[[], object]) -> None:
    """Run a step of the clean-up after an error; if the step fails, add a note to `error`."""
    try:
        work()
    except Exception as another:
        if str(another) != str(error):
            error.add_note(f"and on another worker: {type(another).__name__}: {another}")


def _await_earlier(own: Future[Metadata]) -> None:
    """Wait until the earlier save of this process has ended; later saves wait for `own`."""
    global _latest
    with _latest_lock:
        earlier, _latest = _latest, own
    if earlier is not None:
        earlier.wait_until_done()  # an error is raised by the earlier save's own Future


fold_public(__name__)

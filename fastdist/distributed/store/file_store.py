"""A store in a file: every process replays one log of requests into its own dictionary."""

from __future__ import annotations

import fcntl
import itertools
import math
import os
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from fastdist.core.errors import AuthenticationError, StoreError, StoreTimeoutError
from fastdist.distributed.sockets import JobSecret

from .access import SecretSource, choose_access
from .answers import Timeout, require_ok
from .local_store import LocalStore
from .requests import MUTATIONS, Op, Request, Status
from .store import DEFAULT_TIMEOUT

# Note [The log of a FileStore]
# The file begins with a line that identifies it. Records follow. A record has the length and the
# CRC-32 of its body, then the body: an op and its arguments. A writer takes the lock, and reads the
# records that others have added. It removes an incomplete record of a killed writer, and adds its
# own record in one write. Readers need no lock: they use a record when it is complete and its
# checksum is right. All processes apply the same records in the same order, so all have the same
# dictionary. If nothing in a process waits for a record, the record costs this process only the
# reading. Taking a value from a queue changes the dictionary, so this op is a record as well. An op
# in a record must not wait. So a process that waits for a value polls until the queue has one. Only
# then does it take the lock and write the record, if no other process has taken the value. Thus
# each value goes to one process, and queues persist when a file is opened again.
_MAGIC = b"fastdist store 1\n"
_HEADER = struct.Struct("<II")
_COUNT = struct.Struct("<BI")
_LENGTH = struct.Struct("<I")
# Kinds of records in addition to the members of Op.
_SECRET = 0x80
_CLOSED = 0x81
_OPENED = 0x82
# There is no notification when a file has grown, so waiters poll: quickly at first, then slowly.
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.0005, 0.02


class FileStore(LocalStore):
    """A store in a file, on one machine or on a file system that all processes of a job share.

    If `world_size` is positive, `world_size` stores open the file, and the last store that closes
    removes the file. Use a new file for each run: entries of an earlier run would look like new
    ones.

    Args:
        file_name: The path of the file, which all workers can open.
        world_size: The number of stores that open the file; the last one that closes removes the
            file. If the number is negative, the file is never removed.
        timeout: The default timeout of calls that wait: a timedelta, or seconds.
        security: How workers that meet here authenticate each other; see docs/guides/security.md.
        secret: The job's secret; if None, the environment's secret, or else a new one.
        certificates: The folder of certificates, for security="certs".
    """

    _hears_of_changes = False
    ends_with_last_user = True

    def __init__(
        self,
        file_name: str,
        world_size: int = -1,
        timeout: Timeout = DEFAULT_TIMEOUT,
        *,
        security: str | None = None,
        secret: JobSecret | None = None,
        certificates: str | None = None,
    ) -> None:
        super().__init__(timeout)
        self._path = os.path.abspath(file_name)
        self._world_size = world_size
        self._position = 0
        # How many stores with a world_size have opened and closed the file.
        self._opened_count = self._closed_count = 0
        # Only its owner can read the file, so a secret may be in it, as for a store on loopback.
        access = choose_access("127.0.0.1", security, secret, certificates)
        self._source, self._given_secret, _ = access
        self._file_secret: JobSecret | None = None
        self._file = self._open()
        try:
            self._begin()
        except BaseException:
            os.close(self._file)
            raise

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._path

    @property
    def job_secret(self) -> JobSecret | None:
        """The given secret, or else the secret in the file, which the first reader creates.

        None if security is 'none' or 'certs'.

        Raises  AuthenticationError if the file belongs to another user
        """
        if self._source is not SecretSource.PUBLISHED:
            return self._given_secret
        self._require_own_process()
        with self._changed, self._locked():
            self._require_open()
            owner = os.fstat(self._file).st_uid
            if owner != os.getuid():
                raise AuthenticationError(
                    f"{self!r} belongs to user {owner}, expected {os.getuid()}: it cannot keep a "
                    "secret; use a file of your own, or give FASTDIST_JOB_SECRET_FILE"
                )
            os.fchmod(self._file, 0o600)
            self._catch_up()
            if self._file_secret is None:
                self._write(_SECRET, [JobSecret.generate().hex().encode()])
                self._catch_up()
            assert self._file_secret is not None
            return self._file_secret

    def close(self) -> None:
        """Close the file; the last of `world_size` stores removes it. A repeat does nothing."""
        if self._is_forked():
            return
        with self._changed:
            if self._is_closed:
                return
            super().close()
            try:
                if self._world_size > 0:
                    self._leave()
            finally:
                os.close(self._file)

    def clone(self) -> FileStore:
        """Return another store on the same file; the file stays until both are closed."""
        return FileStore(self._path, -1, self.timeout)

    def __repr__(self) -> str:
        return f"FileStore({self._path!r})"

    def _ask(self, op: Op, arguments: list[bytes], timeout: Timeout | None = None) -> list[bytes]:
        if op is not Op.POP or arguments[1] != b"1":
            return super()._ask(op, arguments, timeout)
        key, waited_s = arguments[0], self._seconds(timeout)
        deadline, pauses = time.monotonic() + waited_s, self._pauses()
        while True:
            # Check without the lock: several processes may see a value, but only one can take it.
            if super()._ask(Op.QUEUE_LENGTH, [key], timeout) != [b"0"]:
                found = super()._ask(Op.POP, [key, b"0"], timeout)
                if found:
                    return found
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                return require_ok(repr(self), op, arguments, Status.TIMED_OUT, [key], waited_s)
            with self._changed:
                self._changed.wait(min(remaining_s, next(pauses)))

    def _submit(self, request: Request) -> None:
        if request.op not in MUTATIONS:
            self._refresh()
            super()._submit(request)
            return
        with self._locked():
            self._catch_up()
            # A pop from an empty queue changes nothing, so it needs no record.
            if request.op is not Op.POP or self._state.has_queue(request.arguments[0]):
                self._write(request.op, request.arguments)
                # The new record is applied below, with its owner, so it must not be read again.
                self._position = os.fstat(self._file).st_size
        super()._submit(request)

    def _refresh(self) -> None:
        if os.fstat(self._file).st_size > self._position:
            self._catch_up()

    def _pauses(self) -> Iterator[float]:
        doubling = (min(_FIRST_PAUSE_S * 2**n, _LAST_PAUSE_S) for n in range(8))
        return itertools.chain(doubling, itertools.repeat(_LAST_PAUSE_S))

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self._path, flags, 0o600)
        except OSError as error:
            raise StoreError(f"{self!r}: cannot open: {error.strerror}") from error

    def _begin(self) -> None:
        """Write the first line if it is missing, and read all records."""
        try:
            with self._changed, self._locked():
                start = os.pread(self._file, len(_MAGIC), 0)
                # A new file, or one whose creator was killed while it wrote the first line.
                if len(start) < len(_MAGIC) and _MAGIC.startswith(start):
                    os.pwrite(self._file, _MAGIC, 0)
                self._catch_up()
                if self._world_size > 0:
                    self._write(_OPENED, [])
        except OSError as error:
            raise StoreError(f"{self!r}: cannot be a store: {error.strerror}") from error

    def _leave(self) -> None:
        """Record that one more store has closed; the last one removes the file."""
        with self._alone():
            if not self._is_in_place():
                return  # the file was removed, or belongs to another run now
            self._catch_up()
            self._write(_CLOSED, [])
            self._catch_up()
            # RPC and the process groups of a job may share a file, so opened stores count as well.
            if self._closed_count >= max(self._world_size, self._opened_count):
                os.unlink(self._path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the file against other writers; check that it is still the file at `path`."""
        with self._alone():
            if not self._is_in_place():
                raise StoreError(f"{self!r}: the file was removed or replaced while it was in use")
            yield

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._file))
        except FileNotFoundError:
            return False

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the file against other writers. _changed is held, and released during waits.

        Raises  StoreTimeoutError if another process holds the lock too long: it may be frozen
        """
        is_closing, waited_s = self._is_closed, self._seconds(None)
        deadline = time.monotonic() + waited_s
        pauses = self._pauses()
        while not self._try_lock():
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                raise StoreTimeoutError(
                    f"{self!r}: another process has had the file locked for {waited_s:g} s; look "
                    "for a stopped one that uses this file, or give a file of another file system"
                )
            self._changed.wait(min(remaining_s, next(pauses)))
            if not is_closing:
                self._require_open()
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _catch_up(self) -> None:
        """Apply every complete record after _position. See Note [The log of a FileStore]."""
        if self._position == 0:
            if os.pread(self._file, len(_MAGIC), 0) != _MAGIC:
                raise StoreError(f"{self!r}: the file is not a fastdist store; give another one")
            self._position = len(_MAGIC)
        while True:
            header = os.pread(self._file, _HEADER.size, self._position)
            if len(header) < _HEADER.size:
                return
            length, checksum = _HEADER.unpack(header)
            available = os.fstat(self._file).st_size - self._position - _HEADER.size
            if length > available:
                return
            body = os.pread(self._file, length, self._position + _HEADER.size)
            if len(body) < length or zlib.crc32(body) != checksum:
                return
            try:
                self._apply(body)
            except (struct.error, ValueError, IndexError, AuthenticationError) as error:
                # The checksum is right, so another program or version wrote the record.
                raise StoreError(
                    f"{self!r}: byte {self._position} does not begin a record of a fastdist "
                    "store; give a new file"
                ) from error
            self._position += _HEADER.size + length

    def _apply(self, body: bytes) -> None:
        kind, arguments = _unpack_record(body)
        if kind == _SECRET:
            self._file_secret = JobSecret.parse(arguments[0].decode(), repr(self))
        elif kind == _CLOSED:
            self._closed_count += 1
        elif kind == _OPENED:
            self._opened_count += 1
        elif kind not in MUTATIONS:
            raise ValueError(f"op {kind} changes nothing")
        else:
            foreign = Request(Op(kind), arguments, None, math.inf)
            self._deliver(self._state.submit(foreign, time.monotonic()))

    def _write(self, kind: int, arguments: list[bytes]) -> None:
        """Append one record; the lock is held, and all earlier records were read."""
        body = _COUNT.pack(kind, len(arguments)) + b"".join(
            _LENGTH.pack(len(argument)) + argument for argument in arguments
        )
        record = _HEADER.pack(len(body), zlib.crc32(body)) + body
        self._require_no_damage()
        # Anything after the last complete record was left by a killed writer.
        os.ftruncate(self._file, self._position)
        try:
            written = os.pwrite(self._file, record, self._position)
        except OSError as error:
            raise StoreError(f"{self!r}: cannot write: {error.strerror}") from error
        if written < len(record):
            raise StoreError(f"{self!r}: {written} of {len(record)} bytes written: no space left")

    def _require_no_damage(self) -> None:
        """Raise StoreError for a damaged record; a killed writer leaves only an incomplete one."""
        header = os.pread(self._file, _HEADER.size, self._position)
        size = os.fstat(self._file).st_size
        if len(header) == _HEADER.size:
            end = self._position + _HEADER.size + _HEADER.unpack(header)[0]
            if end <= size:
                raise StoreError(f"{self!r}: damaged at byte {self._position}; remove the file")


def _unpack_record(body: bytes) -> tuple[int, list[bytes]]:
    kind, count = _COUNT.unpack_from(body)
    offset, arguments = _COUNT.size, []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(body, offset)
        offset += _LENGTH.size
        arguments.append(body[offset : offset + length])
        offset += length
    return kind, arguments

"""The interface of every store: PyTorch's methods, and others such as `join` and `watch`."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import NamedTuple, Self

from fastdist.core.errors import (
    QueueEmptyError,
    StoreError,
    StoreLostError,
    StoreTimeoutError,
)
from fastdist.core.folded_frames import fold_methods
from fastdist.distributed.sockets import JobSecret

from .answers import Timeout, key_bytes, not_all_joined, seconds, value_bytes
from .requests import Op
from .wait_log import WaitLog, name_ranks, speaks_for_node

DEFAULT_TIMEOUT = timedelta(seconds=300)
# The timeout of a request that reports an error or queries past events.
ASK_S = 1.0
# The interval at which a waiting `join` calls the caller's `look` function.
_LOOKS_S = 0.25

_MAX_REFUSALS = 8


class Change(NamedTuple):
    """A key that was added or changed, or deleted (value None)."""

    key: str
    value: bytes | None


class Watch(ABC):
    """The changes of all keys with one prefix; existing keys are reported first.

    Thread  one at a time
    """

    @abstractmethod
    def next(self, timeout: Timeout | None = None) -> Change | None:
        """Wait for the next change and return it, or None at the timeout (by default the store's).

        Raises  StoreError if the store is gone or was closed
        """

    @abstractmethod
    def fileno(self) -> int | None:
        """Return a descriptor for poll; None if `next` must be called repeatedly instead.

        Note    wait on it only after next(0) has returned None: it is edge triggered
        """

    @abstractmethod
    def close(self) -> None:
        """End the watch; a second call does nothing."""


@fold_methods
class Store:
    """A small dictionary that all workers of a job share. Keys are text, values bytes.

    A user-defined subclass overrides the methods that are called on it, such as set, get and wait.

    If a key is missing, `get` and `wait` wait for it, at most for the store's timeout.

    Thread  any, many at a time; a waiting call does not block others
    Raises  StoreTimeoutError naming the missing keys; StoreError if the store refuses, was closed
            or is gone, or if a key is not a str, a value neither str nor bytes

    Example:
        >>> store = dist.HashStore()
        >>> store.set("step", "1")
        >>> store.get("step"), store.add("count", 2), store.check(["step", "loss"])
        (b'1', 2, False)
    """

    # Whether the store is removed when the last of its users closes it.
    ends_with_last_user = False

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        fold_methods(cls)

    def __init__(self, timeout: Timeout = DEFAULT_TIMEOUT) -> None:
        self._process_id = os.getpid()
        self.set_timeout(timeout)

    @property
    def timeout(self) -> timedelta:
        """The default timeout of get, wait and join."""
        return self._timeout

    def set_timeout(self, timeout: Timeout) -> None:
        """Set the default timeout.

        Raises  StoreError if the timeout is negative, or neither a timedelta nor a number

        Args:
            timeout: The default of calls that wait: a timedelta, or seconds.
        """
        self._timeout = timedelta(seconds=seconds(timeout))

    def set(self, key: str, value: str | bytes) -> None:
        """Store value under key, replacing any earlier value.

        Raises  StoreError if the store refuses, was closed or is gone, or if key is not a str, or
                value neither str nor bytes

        Args:
            key: The name, a str.
            value: The bytes, or a str, which is stored as UTF-8.
        """
        self.multi_set([key], [value])

    def get(self, key: str) -> bytes:
        """Return the value of key; wait until it exists.

        Raises  StoreTimeoutError if the key did not exist in time

        Args:
            key: The name; the call waits for it until the store's timeout (300 s by default).
        """
        return self._ask(Op.GET, [key_bytes(key)])[0]

    def add(self, key: str, amount: int) -> int:
        """Add amount to the number under key (0 if there is none), and return the sum.

        Raises  StoreError if the value of key is not a number

        Args:
            key: The name of a counter; a new one begins at 0.
            amount: The integer to add; may be negative.
        """
        return int(self._ask(Op.ADD, [key_bytes(key), str(int(amount)).encode()])[0])

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes
    ) -> bytes:
        """Set key to desired_value if it holds expected_value; return the value afterwards.

        Note    as in torch, b"" matches an absent key; any other expected_value is returned as is

        Args:
            key: The name.
            expected_value: The value to replace, as a str or bytes.
            desired_value: The new value, as a str or bytes.
        """
        arguments = [key_bytes(key), value_bytes(expected_value), value_bytes(desired_value)]
        return self._ask(Op.COMPARE_SET, arguments)[0]

    def wait(self, keys: Sequence[str], timeout: Timeout | None = None) -> None:
        """Wait until all keys exist.

        Raises  StoreTimeoutError naming the keys that did not exist in time

        Args:
            keys: The names that must exist.
            timeout: A timedelta, or seconds; the store's timeout if None.
        """
        self._ask(Op.WAIT, [key_bytes(key) for key in keys], timeout)

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys exist now.

        Args:
            keys: The names.
        """
        return self._ask(Op.CHECK, [key_bytes(key) for key in keys]) == [b"1"]

    def delete_key(self, key: str) -> bool:
        """Remove key, and return whether it existed.

        Args:
            key: The name.
        """
        return self._ask(Op.DELETE, [key_bytes(key)]) == [b"1"]

    def num_keys(self) -> int:
        """Return the number of all keys, whatever their prefix."""
        return int(self._ask(Op.NUM_KEYS, [])[0])

    def append(self, key: str, value: str | bytes) -> None:
        """Append value to the value of key.

        Args:
            key: The name; a missing key begins empty.
            value: The bytes, or a str, to add at the end.
        """
        self._ask(Op.APPEND, [key_bytes(key), value_bytes(value)])

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return the values of keys; wait until all of them exist.

        Raises  StoreTimeoutError naming the keys that did not exist in time

        Args:
            keys: The names, for which the call waits as get does.
        """
        return self._ask(Op.GET, [key_bytes(key) for key in keys])

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Set each key to its value, in one operation.

        Raises  StoreError if there are not as many values as keys

        Args:
            keys: The names.
            values: The value of each name, as a str or bytes.
        """
        if len(keys) != len(values):
            raise StoreError(f"multi_set: {len(keys)} keys and {len(values)} values")
        pairs = [(key_bytes(key), value_bytes(value)) for key, value in zip(keys, values)]
        self._ask(Op.SET, [part for pair in pairs for part in pair])

    def has_extended_api(self) -> bool:
        """Return whether append, multi_get and multi_set exist; False for user-defined stores."""
        return type(self)._ask is not Store._ask

    def list_keys(self) -> list[str]:
        """Return the existing keys, without queues."""
        return [key.decode(errors="replace") for key in self._ask(Op.KEYS, [b""])]

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Put a value at the end of the queue under key.

        Args:
            key: The name of the queue.
            value: The bytes, or a str, to add at the end.
        """
        self._ask(Op.PUSH, [key_bytes(key), value_bytes(value)])

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Remove and return the first value of the queue under key; if `block`, wait for a value.

        Raises  StoreTimeoutError if no value came before the timeout; QueueEmptyError if the queue
                is empty, and block is False

        Args:
            key: The name of the queue.
            block: Whether to wait for a value, until the store's timeout.
        """
        found = self._ask(Op.POP, [key_bytes(key), b"1" if block else b"0"])
        if not found:
            raise QueueEmptyError(f"queue is empty: {key!r} of {self!r}")
        return found[0]

    def queue_len(self, key: str) -> int:
        """Return the number of values in the queue under key; 0 if there is no queue.

        Args:
            key: The name of the queue.
        """
        return int(self._ask(Op.QUEUE_LENGTH, [key_bytes(key)])[0])

    def barrier(self, key: str, world_size: int, timeout: Timeout | None = None) -> None:
        """Wait until world_size callers have each called this with the same key.

        Raises  StoreTimeoutError if some callers are missing at the timeout

        Args:
            key: A name that no other barrier uses.
            world_size: The number of callers to wait for.
            timeout: A timedelta, or seconds; the store's timeout if None.
        """
        if self.add(f"{key}/num_members", 1) == world_size:
            self.set(f"{key}/last_member", "1")
        self.wait([f"{key}/last_member"], timeout)

    def clone(self) -> Store:
        """Return another store with the same keys, with its own timeout and its own close()."""
        raise self._lacks("clone")

    def join(
        self,
        group: str,
        rank: int,
        value: str | bytes,
        world_size: int,
        timeout: Timeout | None = None,
        *,
        who: str = "",
        more: Sequence[bytes] = (),
        look: Callable[[], object] | None = None,
    ) -> list[bytes]:
        """Join `group` as member `rank` with a value; return all values when all have joined.

        This takes one round trip, not one for each member. Joining again with the same value is
        allowed. If `who` is given, a line on stderr names the missing members. `more` are the
        further arguments of Op.JOIN. `look` is called regularly while members are missing; an error
        that it raises ends the wait.

        Raises  StoreTimeoutError naming the missing ranks (with `who`, also if the store ends
                before they join); StoreLostError if the store ends in other cases; StoreError, at
                every member, if two disagree on the world size, or if the launcher reports the end
                of a missing member; RankTakenError if two members claim one rank: at every member
                or, if all had joined, only at the second member

        Args:
            group: The name of the group, which all members give.
            rank: The rank of this member, below world_size.
            value: The bytes of this member, or a str.
            world_size: The number of members.
            timeout: A timedelta, or seconds; the store's timeout if None.
            who: The name of this member in the line on stderr; no line if empty.
            more: Further arguments of the request.
            look: A function that may raise; None calls none.
        """
        arguments = [key_bytes(group), b"%d" % rank, b"%d" % world_size, value_bytes(value), *more]
        try:
            if look is not None:
                return self._join_while(look, arguments, self._seconds(timeout))
            if not who:
                return self._ask(Op.JOIN, arguments, timeout)
            return self._join_aloud(arguments, self._seconds(timeout), who)
        except StoreTimeoutError as late:
            is_gone = isinstance(late.__cause__, StoreLostError)
            refused = "" if is_gone else self.refused()
            if not refused:
                raise
            raise StoreTimeoutError(f"{late}; {refused}", late.missing) from late

    def withdraw(self, group: str, rank: int, world_size: int) -> None:
        """Cancel the join of member `rank`, unless all have joined; it may then join again.

        For a restarted worker whose former life may have joined before it was lost.

        Args:
            group: The name of the group of the join. The new join may have another value.
            rank: The rank of the member.
            world_size: The number of members.
        """
        self._ask(Op.WITHDRAW, [key_bytes(group), b"%d" % rank, b"%d" % world_size])

    def disband(self, group: str) -> None:
        """Make the store forget a complete group; call it when all members have the values.

        Args:
            group: The name of the group.
        """
        self._ask(Op.DISBAND, [key_bytes(group)])

    def _join_while(
        self, look: Callable[[], object], arguments: list[bytes], timeout_s: float
    ) -> list[bytes]:
        """Join, and call `look` regularly."""
        began = time.monotonic()
        while True:
            left_s = began + timeout_s - time.monotonic()
            try:
                return self._ask(Op.JOIN, arguments, min(max(0.0, left_s), _LOOKS_S))
            except StoreTimeoutError as late:
                if left_s <= _LOOKS_S:
                    store, group = self._shown(arguments[0].decode())
                    told = (store, group, int(arguments[2]), late.missing, timeout_s)
                    raise not_all_joined(*told) from late
            look()

    def _join_aloud(self, arguments: list[bytes], timeout_s: float, who: str) -> list[bytes]:
        """Join, and log the missing members regularly."""
        store, group = self._shown(arguments[0].decode())
        rank, world_size = int(arguments[1]), int(arguments[2])
        late = StoreTimeoutError("")
        with WaitLog(who, timeout_s) as line:
            for pause_s in line.pauses():
                try:
                    return self._ask(Op.JOIN, arguments, pause_s)
                except StoreLostError as lost:
                    # A host that closes its store names the missing members. If the host was
                    # killed, use the names in the last answer that it sent.
                    missing = lost.missing or late.missing
                    if not missing:
                        raise
                    told = (store, group, world_size, missing, line.waited_s, lost)
                    raise not_all_joined(*told) from lost
                except StoreTimeoutError as error:
                    # An error without names: the store was too slow, so the last names are kept.
                    late = error if error.missing or not late.missing else late
                    # The last entry may be text such as "5 more".
                    ranks = [int(other) for other in error.missing if other.isdigit()]
                    if ranks and speaks_for_node(rank, ranks):
                        line.tell(name_ranks(ranks, world_size))
            if not late.missing:
                raise late
            raise not_all_joined(store, group, world_size, late.missing, line.waited_s)

    def query_host(self, line: str = "") -> list[str]:
        """Make the store's host log `line`, if given; return the host and its refused connections.

        Note    a store without a host returns an empty list
        """
        return []

    def refused(self) -> str:
        """Return error text about the connections that the store has refused, and why."""
        try:
            _, *refusals = self.query_host() or ("",)
        except StoreError:
            return ""  # the store is gone; its host has logged the refusals
        shown = "; ".join(refusals[:_MAX_REFUSALS])
        more = "" if len(refusals) <= _MAX_REFUSALS else "; and others"
        return f"refused by the store meanwhile: {shown}{more}" if refusals else ""

    def watch(self, prefix: str) -> Watch:
        """Return a watch on all keys that begin with prefix; close it after use.

        Args:
            prefix: The beginning of the keys.
        """
        raise self._lacks("watch")

    @property
    def job_secret(self) -> JobSecret | None:
        """The job secret of this store; None if security is 'none'."""
        return None

    def close(self) -> None:
        """Close the store; waiting calls of other threads raise StoreError. Repeats do nothing."""

    def _ask(self, op: Op, arguments: list[bytes], timeout: Timeout | None = None) -> list[bytes]:
        """Execute an op and return the answer's frames; the default timeout is the store's."""
        raise self._lacks(op.name.lower())

    def _lacks(self, what: str) -> NotImplementedError:
        return NotImplementedError(
            f"Not implemented. {type(self).__name__} does not have {what}(): override the methods "
            "of Store that are called, or use a HashStore, FileStore or TCPStore"
        )

    def _shown(self, key: str) -> tuple[str, str]:
        """Return the name of the store that holds a key, and the whole key, for errors."""
        return repr(self), key

    def _is_forked(self) -> bool:
        return os.getpid() != self._process_id

    def _require_own_process(self) -> None:
        """Raise StoreError in a forked child, which lacks the store's threads and locks."""
        if self._is_forked():
            raise StoreError(
                f"{self!r} was opened in process {self._process_id} before it forked process "
                f"{os.getpid()}: start workers with the 'spawn' method, or open the store after"
            )

    def _seconds(self, timeout: Timeout | None) -> float:
        return self._timeout.total_seconds() if timeout is None else seconds(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

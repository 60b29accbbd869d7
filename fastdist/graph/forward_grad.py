"""Tangents of tensors, and the levels of forward mode that own them."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakSet

from ..core.errors import GraphError
from ..core.short_repr import short_repr
from ..system.forked_locks import renew_in_children
from .modes import count_special

# Locks: _levels_lock, a level's lock and a ForwardGrad's lock are never held together; each guards
# only a few lines. No lock is held when a tangent is freed, because that may also free tensors that
# have tangents themselves.

# Note [Levels and their order]
# A level opened in this process has an index, its depth in the stack of levels. A mirror of another
# worker's level has a global id and is not in the stack. A tensor may have tangents at levels of
# the stack and at mirrors. A computation at a level may depend on outer levels but not on inner
# ones, so levels need an order in which inner levels come later. Depth does not give this order:
# mirrors have no depth, and depths are reused. The sequence of creation in this process gives the
# order: a level that is created while other levels are open is inside of them, or unrelated to
# them. If one level of a worker is inside another one, the mirror of the outer level must be
# created first.


class ForwardADLevel:
    """One run of forward mode. It registers its tangents, and removes them when it ends.

    `<` compares levels by their creation, see Note [Levels and their order].

    Thread  any; but the levels of a process must end in the reverse order of their creation
    Source  PyTorch, torch/csrc/autograd/forward_grad.h
    """

    __slots__ = (
        "__weakref__", "_grads", "_grads_lock", "_holders", "_released", "around", "global_id",
        "idx", "opener", "order",
    )  # fmt: skip

    def __init__(self, idx: int | None, global_id: int | None = None) -> None:
        self.idx = idx
        self.global_id = global_id
        self.order = next(_orders)
        self.opener = threading.get_ident()
        # The level of a remote caller that this level was opened in, or None. Threads see the
        # caller's level as the outer one.
        self.around = None if idx is None else _thread.adopted
        # Guards the attributes below. Reentrant, because a finalizer may remove tangents.
        self._grads_lock = threading.RLock()
        self._grads: WeakSet[ForwardGrad] = WeakSet()
        self._holders = 0
        self._released = False

    @staticmethod
    def get_next_idx() -> int:
        """Open a level inside all levels that are open in this process, and return its index."""
        # Count first: an op that finds the level but does not see the count would drop a tangent.
        count_special(1)
        with _levels_lock:
            level = ForwardADLevel(len(_stack))
            _stack.append(level)
        assert level.idx is not None
        return level.idx

    @staticmethod
    def release_idx(idx: int) -> None:
        """End the innermost level, which must have this index, and remove its tangents.

        Raises  GraphError if the innermost level has another index
        """
        with _levels_lock:
            if idx != len(_stack) - 1 or idx < 0:
                raise GraphError(
                    "Exiting a forward AD level that is not the last that was created is not "
                    "support. Ensure they are released in the reverse order they were created. "
                    f"Given was level {short_repr(idx)}, of {len(_stack)} open ones"
                )
            level = _stack.pop()
            if level.global_id is not None:
                _by_global_id.pop(level.global_id, None)
        level._release()
        if level.global_id is not None:
            for callback in end_callbacks:
                callback(level.global_id)

    @staticmethod
    def get_by_idx(idx: int) -> ForwardADLevel:
        """Return the open level with an index.

        Raises  GraphError if there is no such level
        """
        level = ForwardADLevel.try_get_by_idx(idx)
        if level is None:
            raise GraphError(
                f"{_INVALID} It is {short_repr(idx)}, and {len(_stack)} levels are open"
            )
        return level

    @staticmethod
    def try_get_by_idx(idx: int) -> ForwardADLevel | None:
        """Return the open level with an index; None if there is no such level."""
        with _levels_lock:
            return _stack[idx] if 0 <= idx < len(_stack) else None

    @staticmethod
    def count() -> int:
        """Return the number of levels that are open in this process, without mirrors."""
        return len(_stack)

    @staticmethod
    def get_or_create_mirror(global_id: int) -> ForwardADLevel:
        """Return the level with a global id: one of this process, or the mirror of a remote one."""
        level = _by_global_id.get(global_id)
        if level is not None:
            return level
        count_special(1)
        with _levels_lock:
            level = _by_global_id.get(global_id)
            made = level is None
            if level is None:
                level = _by_global_id[global_id] = ForwardADLevel(None, global_id)
        if not made:
            count_special(-1)
        return level

    @staticmethod
    def try_get_by_global_id(global_id: int) -> ForwardADLevel | None:
        """Return the level or mirror with a global id; None if there is none."""
        return _by_global_id.get(global_id)

    @staticmethod
    def release_mirror(global_id: int) -> bool:
        """End a mirror, and return whether it existed. Mirrors can end in any order."""
        with _levels_lock:
            level = _by_global_id.get(global_id)
            if level is None or not level.is_mirror:
                return False
            del _by_global_id[global_id]
        level._release()
        return True

    @staticmethod
    def forget_global_ids() -> None:
        """Drop the global ids of this process's levels; a level gets a new id when it needs one."""
        with _levels_lock:
            for level in _stack:
                if level.global_id is not None:
                    _by_global_id.pop(level.global_id, None)
                    level.global_id = None

    @staticmethod
    def current() -> ForwardADLevel | None:
        """Return the innermost level of the calling thread; None if there is none.

        Note    for a thread that serves a remote caller, it is the last level that this thread
                opened inside the caller's level, or else the caller's level. For any other thread,
                it is the last level opened in this process
        """
        adopted = _thread.adopted
        with _levels_lock:
            if adopted is None:
                return _stack[-1] if _stack else None
            mine = threading.get_ident()
            for level in reversed(_stack):
                if level.opener == mine and adopted.order < level.order:
                    return level
        return adopted

    @property
    def is_mirror(self) -> bool:
        """Whether this is a mirror of another worker's level."""
        return self.idx is None

    def get_or_assign_global_id(self, next_id: Callable[[], int]) -> int:
        """Return the level's id on other workers; the first call gets it from next_id."""
        if self.global_id is None:
            fresh = next_id()
            with _levels_lock:
                if self.global_id is None:
                    self.global_id = fresh
                    _by_global_id[fresh] = self
        return self.global_id

    def insert(self, grad: ForwardGrad) -> None:
        """Register grad, which has a tangent at this level."""
        with self._grads_lock:
            self._grads.add(grad)

    def _insert_open(self, grad: ForwardGrad) -> None:
        with self._grads_lock:
            if self._released:
                raise GraphError(f"{_INVALID} It is {self!r}")
            self._grads.add(grad)

    def erase(self, grad: ForwardGrad) -> None:
        """Remove grad, if it is registered."""
        with self._grads_lock:
            self._grads.discard(grad)

    def __len__(self) -> int:
        """Return the number of living tensors that have a tangent at this level."""
        with self._grads_lock:
            return len(self._grads)

    def __bool__(self) -> bool:
        return True

    def __lt__(self, other: ForwardADLevel) -> bool:
        return self.order < other.order

    def __repr__(self) -> str:
        if self.is_mirror:
            return f"<mirror of forward AD level {self.global_id}>"
        return f"<forward AD level {self.idx}>"

    def _hold(self) -> None:
        """Keep the level open until _let_go is called.

        Raises  GraphError if the level has ended
        """
        with self._grads_lock:
            if self._released:
                raise GraphError(f"{_INVALID} It is {self!r}")
            self._holders += 1

    def _let_go(self) -> None:
        with self._grads_lock:
            self._holders -= 1
            over = self._released and not self._holders
        if over:
            self._end()

    def _release(self) -> None:
        with self._grads_lock:
            self._released = True
            over = not self._holders
        # If another thread is registering a tangent (see `_hold`), its `_let_go` ends the level, so
        # that no tangent remains.
        if over:
            self._end()

    def _end(self) -> None:
        try:
            with self._grads_lock:
                grads = list(self._grads)
                self._grads.clear()
            for grad in grads:
                grad.reset(self, update_level=False)
        finally:
            # Decrement the count last, so that no op finds a level that is not counted.
            count_special(-1)


class ForwardGrad:
    """The tangents of one tensor, by level; they are freed with the tensor.

    Methods take a level as an index, or as a level object, which may be a mirror.

    Thread  any
    Source  PyTorch, torch/csrc/autograd/forward_grad.h
    """

    __slots__ = ("__weakref__", "_content", "_content_lock")

    def __init__(self) -> None:
        # Guards _content.
        self._content_lock = threading.Lock()
        self._content: dict[ForwardADLevel, Any] = {}

    @classmethod
    def of_one(cls, value: Any, level: ForwardADLevel) -> ForwardGrad:
        """Return a ForwardGrad with one tangent, for a new tensor.

        Raises  GraphError if the level has ended
        """
        made = cls()
        made._content[level] = value
        level._insert_open(made)
        return made

    def items(self) -> tuple[tuple[ForwardADLevel, Any], ...]:
        """Return (level, tangent) pairs, in no defined order."""
        return tuple(self._content.items())  # atomic in CPython, so no lock

    def set_value(self, value: Any, level: int | ForwardADLevel) -> None:
        """Store a tangent, unless the level has one already.

        Raises  GraphError if the level has ended
        """
        at = ForwardADLevel.get_by_idx(level) if isinstance(level, int) else level
        at._hold()
        try:
            at.insert(self)
            with self._content_lock:
                self._content.setdefault(at, value)
        finally:
            at._let_go()

    def value(self, level: int | ForwardADLevel) -> Any:
        """Return the tangent at `level`; None if there is none."""
        at = _try_resolve(level)
        return None if at is None else self._content.get(at)

    def contains(self, level: int | ForwardADLevel) -> bool:
        """Return whether there is a tangent at `level`."""
        at = _try_resolve(level)
        with self._content_lock:
            return at in self._content

    def empty(self) -> bool:
        """Return whether there is no tangent at all."""
        return not self._content

    def levels(self) -> tuple[ForwardADLevel, ...]:
        """Return the levels at which there is a tangent, outermost first."""
        found = tuple(self._content)  # atomic in CPython, so no lock
        return found if len(found) < 2 else tuple(sorted(found))

    def reset(self, level: int | ForwardADLevel, *, update_level: bool = True) -> None:
        """Remove the tangent at `level`.

        Raises  AssertionError if there is no tangent. With update_level=False, the level calls this
                method when it ends. Then there is no error, because the tensor may already have
                removed the tangent
        """
        if isinstance(level, int):
            level = ForwardADLevel.get_by_idx(level)
        if update_level:
            level.erase(self)
        with self._content_lock:
            there = level in self._content
            # Keep the tangent until the lock is released. When it is freed, tensors that have
            # tangents themselves may be freed too.
            tangent = self._content.pop(level, None)
        del tangent
        if update_level and not there:
            raise AssertionError(f"Resetting a non-existent level. This is {short_repr(level)}")

    def clear(self) -> None:
        """Remove all tangents; called when the tensor is freed before the levels end."""
        with self._content_lock:
            content, self._content = self._content, {}
        for level in content:
            level.erase(self)


@contextmanager
def adopt(level: ForwardADLevel | None) -> Iterator[None]:
    """Make a remote caller's level the current one of this thread in a `with` block, or None."""
    previous, _thread.adopted = _thread.adopted, level
    try:
        yield
    finally:
        _thread.adopted = previous


class _Thread(threading.local):
    adopted: ForwardADLevel | None = None


_INVALID: Final = (
    "Trying to access a forward AD level with an invalid index. "
    "This index was either not created or is already deleted."
)
_orders = itertools.count()
# After a level with a global id has ended, each callback is called with this id.
end_callbacks: Final[list[Callable[[int], None]]] = []
_thread = _Thread()
# Guards _stack and _by_global_id.
_levels_lock = threading.RLock()
renew_in_children(sys.modules[__name__], "_levels_lock")
_stack: Final[list[ForwardADLevel]] = []
_by_global_id: Final[dict[int, ForwardADLevel]] = {}


def _try_resolve(level: int | ForwardADLevel) -> ForwardADLevel | None:
    return ForwardADLevel.try_get_by_idx(level) if isinstance(level, int) else level

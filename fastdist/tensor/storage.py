"""State that a tensor and its views share: a counter of in-place changes, and a list of views."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol
from weakref import ref

from ..system.forked_locks import renew_in_children


class HasStorage(Protocol):
    """The part of Tensor that this file needs. tensor.py imports this file, not the reverse."""

    _storage: Any


# Guards the `version` of every Storage, removals from the `views` of every Storage, and the
# creation of Storages and of lists of views. All Storages share one lock. It is held for a few list
# operations, and a lock per Storage would cost each op that saves its output 60 ns. Take no other
# lock while holding this lock. A thread that holds it may take it again: when a view is freed, or
# when the garbage collector runs a finalizer that uses tensors.
#
# Views are appended without the lock, because list.append is atomic, and locking took a third of
# the time of a view op. So the list of a Storage is never replaced. Dead views are removed from the
# front of the list in one operation, which keeps views that are appended at the same time.
_storages_lock = threading.RLock()
renew_in_children(sys.modules[__name__], "_storages_lock")
FEW_VIEWS: Final = 16
"""`add_view` removes dead views now and then from a list of at least this many."""


class Storage:
    """Shared state that is created when a tensor is viewed, changed in place or saved as an output.

    Thread  any; as in PyTorch, two threads must not change one tensor in place at the same time
    """

    __slots__ = ("version", "views")
    # The raw array over the whole memory; None if it is found by following `base` of the arrays.
    memory: Any = None

    def __init__(self) -> None:
        self.version = 0
        self.views: list[ref[Any]] | None = None

    def bump(self) -> None:
        """Count one in-place change."""
        with _storages_lock:
            self.version += 1

    def add_view(self, view: Any) -> None:
        """Record a view, because a later in-place op may have to update the view's edge."""
        self.add_views((view,))

    def add_views(self, more: Sequence[Any]) -> None:
        """Record several views."""
        views = self.views
        if views is None:
            with _storages_lock:
                if self.views is None:
                    self.views = []
                views = self.views
        seen = len(views)
        if seen >= FEW_VIEWS and (seen - 1).bit_length() < (seen + len(more) - 1).bit_length():
            # Dead views are removed whenever the length passes a power of two. Otherwise a loop
            # over slices would make the list grow without limit.
            with _storages_lock:
                seen = len(views)
                views[:seen] = [known for known in views[:seen] if known() is not None]
        views += list(map(ref, more))

    def living_views(self) -> list[Any]:
        """Return the views that are still alive, oldest first."""
        with _storages_lock:
            return [view for known in self.views or () if (view := known()) is not None]


def bump_all(tensors: Iterable[HasStorage]) -> None:
    """Count one in-place change of each of several tensors."""
    with _storages_lock:
        for tensor in tensors:
            storage = tensor._storage
            if storage is None:
                storage = tensor._storage = Storage()
            storage.version += 1


class BoundedStorage(Storage):
    """A Storage with a reference to the memory. See Note [Memory of a tensor] in memory.py."""

    __slots__ = ("memory",)

    def __init__(self, memory: Any) -> None:
        super().__init__()
        self.memory = memory


def storage_of(tensor: HasStorage) -> Storage:
    """Return the tensor's Storage; create the Storage if the tensor does not have one."""
    storage: Storage | None = tensor._storage
    if storage is None:
        with _storages_lock:
            storage = tensor._storage
            if storage is None:
                storage = tensor._storage = Storage()
    return storage

"""Borrowed blocks in a forked child: it copies them before it runs anything."""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
import select
import threading
import weakref
from collections import deque
from typing import Any, Final, Protocol

import numpy as np

from fastdist.system.sealed_memory import MAP_FIXED, libc_mmap

from .layout import Bytes, round_up

# Note [Borrowed blocks and fork]
# A child has the tensors of its parent, but memory that is shared would stay shared: each would see
# the other's writes, and when the parent releases a block its owner fills it with other data. So
# the child maps private pages with the same bytes over each block, at the same address. As long as
# it copies the parent releases nothing, and fork returns in the parent when it is done.

_PATIENCE_MS: Final = 5000

_logger = logging.getLogger(__name__)


class Borrower(Protocol):
    """The part of a borrowed arena that a fork uses."""

    def held_blocks(self) -> list[Bytes]:
        """Return the blocks that somebody here looks at."""

    def forget_all(self) -> None:
        """Release nothing any more: the blocks are another process's."""


class Releasable(Protocol):
    """A block that nobody looks at any more."""

    def release(self) -> None:
        """Let its owner have it again."""


borrowers: weakref.WeakSet[Borrower] = weakref.WeakSet()
# How many forks are under way, guarded by the lock, and what died meanwhile.
_lock = threading.Lock()
_forks_under_way = 0
_late: deque[Releasable] = deque()


class _ThisThread(threading.local):
    pipe: tuple[int, int] | None = None
    remap: Any = None


_this_thread = _ThisThread()


def postpone(block: Releasable) -> bool:
    """Keep a block to be released later if a fork is under way; return whether it was kept.

    Thread  any, from within the garbage collector as well: it uses no lock
    """
    if not _forks_under_way:
        return False
    _late.append(block)
    _release_late()  # the fork may have ended just now, without seeing it
    return True


def _release_late() -> None:
    while _late and not _forks_under_way:
        try:
            late = _late.popleft()
        except IndexError:
            return  # another thread was faster
        late.release()


def _before() -> None:
    global _forks_under_way
    if not any(borrower.held_blocks() for borrower in list(borrowers)):
        return
    # Made here, for a child of many threads can load nothing safely.
    _this_thread.remap = libc_mmap()
    _this_thread.pipe = os.pipe()
    with _lock:
        _forks_under_way += 1


def _in_parent() -> None:
    global _forks_under_way
    pipe, _this_thread.pipe = _this_thread.pipe, None
    if pipe is None:
        return
    os.close(pipe[1])
    poll = select.poll()
    poll.register(pipe[0], select.POLLIN)
    if not poll.poll(_PATIENCE_MS):
        _logger.warning("a forked child did not copy the tensors that it shares with its parent")
    os.close(pipe[0])
    with _lock:
        _forks_under_way -= 1
    # Not only when more is taken: an owner without room lends nothing that could be.
    _release_late()


def _in_child() -> None:
    global _forks_under_way, _lock
    _lock = threading.Lock()
    _forks_under_way = 0
    _late.clear()
    pipe, _this_thread.pipe = _this_thread.pipe, None
    for borrower in list(borrowers):
        for block in borrower.held_blocks():
            _make_private(block)
        borrower.forget_all()
    if pipe is not None:
        os.close(pipe[0])
        os.close(pipe[1])


def _make_private(block: Bytes) -> None:
    address, length = block.__array_interface__["data"][0], round_up(block.nbytes)
    copied = block.copy()
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    if _this_thread.remap(address, length, protection, flags, -1, 0) != address:
        raise OSError(ctypes.get_errno(), "no memory for the tensors of a forked child")
    np.copyto(block, copied)


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)

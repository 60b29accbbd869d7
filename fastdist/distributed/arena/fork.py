"""Borrowed blocks in a forked child: the child copies them before it runs other code."""

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
# A child has the tensors of its parent, and borrowed blocks would stay shared by both processes.
# Each process would see the other's writes, and when the parent releases a block, the block's owner
# fills the block with other data. So the child maps private pages with the same bytes over each
# block, at the same address. While the child copies, the parent releases no block; fork returns in
# the parent when the child is done.

_PATIENCE_MS: Final = 5000

_logger = logging.getLogger(__name__)


class Borrower(Protocol):
    """The part of a borrowed arena that a fork uses."""

    def held_blocks(self) -> list[Bytes]:
        """Return the blocks that are in use here."""

    def forget_all(self) -> None:
        """Release no block from now on, because all blocks belong to the parent process."""


class Releasable(Protocol):
    """A block that is not in use any more."""

    def release(self) -> None:
        """Return the block to its owner."""


borrowers: weakref.WeakSet[Borrower] = weakref.WeakSet()
# The lock guards the number of forks under way. _late has the blocks that were freed meanwhile.
_lock = threading.Lock()
_forks_under_way = 0
_late: deque[Releasable] = deque()


class _ThisThread(threading.local):
    pipe: tuple[int, int] | None = None
    remap: Any = None


_this_thread = _ThisThread()


def postpone(block: Releasable) -> bool:
    """Keep a block for a later release if a fork is under way; return whether it was kept.

    Thread  any, also within the garbage collector, as this function takes no lock
    """
    if not _forks_under_way:
        return False
    _late.append(block)
    _release_late()  # the fork may have ended in between
    return True


def _release_late() -> None:
    while _late and not _forks_under_way:
        try:
            late = _late.popleft()
        except IndexError:
            return  # another thread took it
        late.release()


def _before() -> None:
    global _forks_under_way
    if not any(borrower.held_blocks() for borrower in list(borrowers)):
        return
    # Loaded before the fork: a child of a process with many threads cannot safely load libraries.
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
    # Release the blocks now, not when another block is freed: an owner without free blocks lends
    # nothing.
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

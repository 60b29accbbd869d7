"""Record the order in which threads take locks, in every process of a run.

With PYTEST_LOCK_ORDER=FOLDER, each process replaces `threading.Lock` and `threading.RLock` before
it imports fastdist. It writes to FOLDER which locks a thread took while the thread held others. Two
threads that take two locks in opposite orders may deadlock. A test run meets such a deadlock once
in a million times, but it reliably shows that both orders occur.
"""

from __future__ import annotations

import _thread
import inspect
import linecache
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

FOLDER: Final = "PYTEST_LOCK_ORDER"
_FILE: Final = "pairs"
_ROOT: Final = str(Path(__file__).resolve().parents[2])
_OURS: Final = tuple(os.path.join(_ROOT, name, "") for name in ("fastdist", "kernels"))
_TARGET: Final = re.compile(r"(?:(?P<owner>\w+)\.)?(?P<attribute>\w+)\s*(?::[^=]*)?=(?!=)")
# The function in which a forked child replaces its locks.
_RENEWED: Final = "renew_in_children.<locals>"

_held = threading.local()
# Pairs (held, taken) that this process has already written.
_known: set[tuple[str, str]] = set()


class WatchedLock:
    """A lock of fastdist; when a thread takes it, the thread's other held locks are recorded."""

    def __init__(self, make: Callable[[], Any], name: str) -> None:
        self._lock = make()
        self.name = name
        self._holders: list[list[WatchedLock]] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if blocking:
            _note(self)
        taken: bool = self._lock.acquire(blocking, timeout)
        if taken:
            self._keep()
        return taken

    def release(self) -> None:
        self._forget()
        self._lock.release()

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()

    def locked(self) -> bool:
        return bool(self._lock.locked())

    def _at_fork_reinit(self) -> None:
        self._holders = []
        self._lock._at_fork_reinit()

    def _keep(self) -> None:
        held = _stack()
        held.append(self)
        self._holders.append(held)

    def _forget(self) -> None:
        # Another thread than the one that took a plain lock may release it.
        if self._holders:
            held = self._holders.pop()
            for at in range(len(held) - 1, -1, -1):
                if held[at] is self:
                    del held[at]
                    break


class WatchedRLock(WatchedLock):
    """A reentrant lock, with the methods that threading.Condition needs."""

    def _is_owned(self) -> bool:
        return bool(self._lock._is_owned())

    def _release_save(self) -> Any:
        count = len(self._holders)
        for _ in range(count):
            self._forget()
        return count, self._lock._release_save()

    def _acquire_restore(self, saved: Any) -> None:
        count, state = saved
        _note(self)
        self._lock._acquire_restore(state)
        for _ in range(count):
            self._keep()


def _stack() -> list[WatchedLock]:
    try:
        return _held.locks  # type: ignore[no-any-return]
    except AttributeError:
        _held.locks = []
        return _held.locks  # type: ignore[no-any-return]


def _note(taken: WatchedLock) -> None:
    held = _stack()
    if not held or taken in held:
        return
    for other in {lock.name for lock in held}:
        if (other, taken.name) not in _known:
            _known.add((other, taken.name))
            _write(other, taken.name)


def _write(held: str, taken: str) -> None:
    folder = os.environ.get(FOLDER)
    if folder is None:
        return
    frames, frame = [], sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith(_OURS):
            frames.append(f"{os.path.relpath(frame.f_code.co_filename, _ROOT)}:{frame.f_lineno}")
        frame = frame.f_back  # type: ignore[assignment]
    line = f"{held}\t{taken}\t{' < '.join(frames[:12])}\n".encode()
    descriptor = os.open(os.path.join(folder, _FILE), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def _name_of_next_lock(frame: FrameType) -> str | None:
    """Return the name of a lock that is being created, or None if fastdist does not create it.

    Locks inside Threads and Events of the standard library are not recorded.
    """
    if frame.f_code is threading.Condition.__init__.__code__ and frame.f_back is not None:
        frame = frame.f_back
    code = frame.f_code
    if not code.co_filename.startswith(_OURS):
        return None
    if code.co_qualname.startswith(_RENEWED):
        owner = frame.f_locals["owner"]
        module = getattr(owner, "__module__", owner.__name__)
        scope = owner.__qualname__ if hasattr(owner, "__qualname__") else ""
        return _join(module, scope, frame.f_locals["name"])
    return lock_name(code, frame.f_lineno)


def lock_name(code: CodeType, line: int) -> str | None:
    """Return a lock's name in the table, by the line that creates it: module, class, attribute.

    Return None for a lock with which a thread waits until another thread releases it.
    """
    module = os.path.relpath(code.co_filename, _ROOT).removesuffix(".py").replace(os.sep, ".")
    target = _TARGET.match(linecache.getline(code.co_filename, line).strip())
    if target is None:
        return _join(module, code.co_qualname, f"line{line}")
    owner, attribute = target["owner"], target["attribute"]
    if attribute == "waiter":
        return None
    if owner in ("self", "cls"):
        return _join(module, code.co_qualname.rpartition(".")[0], attribute)
    if owner:
        return _join(module, owner, attribute)
    in_function = code.co_flags & inspect.CO_OPTIMIZED
    is_global = in_function and attribute not in (*code.co_varnames, *code.co_cellvars)
    return _join(module, "" if is_global else code.co_qualname.replace("<module>", ""), attribute)


def _join(module: str, scope: str, attribute: str) -> str:
    module = module.removeprefix("fastdist.").removeprefix("distributed.")
    return ".".join(part for part in (module, scope, attribute) if part)


def read_pairs(folder: Path) -> dict[tuple[str, str], str]:
    """Return the pairs (held, taken) that the processes have written, each with one source line."""
    pairs: dict[tuple[str, str], str] = {}
    path = folder / _FILE
    for line in path.read_text().splitlines() if path.exists() else ():
        held, taken, where = line.split("\t")
        pairs.setdefault((held, taken), where)
    return pairs


def violations(
    pairs: Mapping[tuple[str, str], str], levels: Sequence[Mapping[str, str]]
) -> list[str]:
    """Return a line for each pair that breaks the order of the table `levels`.

    A lock that is not in the table may be taken while a lock of the table is held. The opposite is
    a violation.
    """
    level_of = {name: number for number, level in enumerate(levels) for name in level}
    found = []
    for (held, taken), where in sorted(pairs.items()):
        outer, inner = level_of.get(held, len(levels)), level_of.get(taken, len(levels))
        if outer >= inner and not outer == inner == len(levels):
            found.append(f"{taken} (level {inner}) inside {held} (level {outer}): {where}")
    return found


def install() -> None:
    """Record each lock that fastdist creates from now on, if the environment names a folder."""
    if FOLDER not in os.environ:
        return
    make_lock, make_rlock = _thread.allocate_lock, _thread.RLock

    def lock() -> Any:
        name = _name_of_next_lock(sys._getframe(1))
        return make_lock() if name is None else WatchedLock(make_lock, name)

    def rlock() -> Any:
        name = _name_of_next_lock(sys._getframe(1))
        return make_rlock() if name is None else WatchedRLock(make_rlock, name)

    threading.Lock, threading.RLock = lock, rlock  # type: ignore[assignment, misc]

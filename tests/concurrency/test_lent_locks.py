"""A signal handler can lend the locks of the code that it interrupted to other threads."""

from __future__ import annotations

import threading

from fastdist.concurrency.lent_locks import lend_held_locks
from fastdist.distributed.pipe.credit import Credit
from fastdist.distributed.rpc.metrics import CallCounts


def can_take(lock: threading.RLock) -> bool:  # type: ignore[valid-type]
    """Return whether another thread can acquire a lock."""
    taken: list[bool] = []

    def take() -> None:
        taken.append(lock.acquire(blocking=False))
        if taken[0]:
            lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join(20)
    return taken[0]


# A function of a module named `fastdist.*` that holds locks while the handler runs.
_INTERRUPTED = """
def hold(counts, credit, handle):
    with counts._lock, credit._returned, credit._lock:
        handle()
"""


def test_locks_of_outer_frames_are_lent_for_the_block_and_held_again_after_it() -> None:
    seen: list[bool] = []

    def handle() -> None:
        frame_locks = [held[0]._lock, held[1]._lock]
        seen.extend(map(can_take, frame_locks))
        with lend_held_locks():
            seen.extend(map(can_take, frame_locks))
        seen.extend(map(can_take, frame_locks))

    held = CallCounts(), Credit(1, 1)
    names: dict[str, object] = {"__name__": "fastdist.interrupted"}
    exec(_INTERRUPTED, names)
    names["hold"](*held, handle)  # type: ignore[operator]
    assert seen == [False, False, True, True, False, False]
    assert can_take(held[0]._lock) and can_take(held[1]._lock)


def test_nothing_is_lent_in_threads_in_which_no_handler_runs() -> None:
    counts, seen = CallCounts(), []

    def hold() -> None:
        with counts._lock, lend_held_locks():
            seen.append(can_take(counts._lock))

    thread = threading.Thread(target=hold)
    thread.start()
    thread.join(20)
    assert seen == [False]

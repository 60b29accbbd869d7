"""Borrowed blocks in forked children are private copies, whatever the parent does later."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import numpy as np

from fastdist.distributed.arena import fork
from tests.distributed.arena.arena_of_both import PEER, SIZE, Both, borrowed, numbers


def run_in_child(work: Callable[[], bool]) -> int:
    """Fork, run `work()` in the child, and return its exit code: 0 if `work()` returned True."""
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_child_has_copies(both: Both) -> None:
    first, others = both.send(numbers()), [both.send(numbers(1 << 16))]
    go, told = os.pipe()

    def work() -> bool:
        os.read(go, 1)
        sound = bool((first == numbers()).all() and (others[0] == numbers(1 << 16)).all())
        first[:] = 7.0
        return sound

    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    others.pop()[:] = -1.0
    assert both.lent() == 1
    for _ in range(4):
        both.send(np.zeros(1 << 16))  # into the memory of the array that was just released
    os.write(told, b"!")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    np.testing.assert_array_equal(first, numbers())
    for end in (go, told):
        os.close(end)


def test_a_child_releases_nothing(both: Both) -> None:
    held = {"first": both.send(numbers())}

    def work() -> bool:
        held.clear()
        return True

    assert run_in_child(work) == 0
    assert both.lent() == 1
    held.clear()
    assert both.lent() == 0


def test_a_child_that_dies_at_once_holds_nobody_up(both: Both) -> None:
    held = both.send(numbers())
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    np.testing.assert_array_equal(held, numbers())
    del held
    assert both.lent() == 0


def test_what_is_released_while_others_fork_is_released_in_the_end(both: Both) -> None:
    over = threading.Event()
    wrong: list[int] = []

    def send() -> None:
        turn = 0
        while not over.is_set():
            turn += 1
            array = np.full(1 << 12, float(turn))
            block = both.arena.lend(array.data.cast("B"), PEER, 1)
            # While a child copies, the arena may be full. Then `lend` returns None, and a message
            # would contain the tensor itself.
            if block is not None and not (borrowed(block, array) == turn).all():
                wrong.append(turn)

    threads = [threading.Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    kept = [both.send(numbers())]
    try:
        for _ in range(20):
            assert run_in_child(lambda: bool((kept[0] == numbers()).all())) == 0
    finally:
        over.set()
        for thread in threads:
            thread.join()
    kept.clear()
    assert wrong == [] and both.lent() == 0


def test_an_arena_that_is_full_while_a_child_copies_has_room_when_it_has_copied(both: Both) -> None:
    array = np.ones(SIZE // 8 // 8)
    kept, others = both.send(array[:1]), [both.send(array)]
    fork._before()
    others.clear()
    while (block := both.arena.lend(array.data.cast("B"), PEER, 1)) is not None:
        borrowed(block, array)
    assert both.lent() > 2
    fork._in_parent()
    assert both.lent() == 1
    assert kept[0] == 1.0

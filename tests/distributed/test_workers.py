"""An error in a test's worker, in any of its threads, fails the test."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from tests.distributed.workers import (
    Group,
    WorkerFailed,
    open_gate,
    run_group,
    wait_at,
    wait_for_arrivals,
)


def raise_in_a_thread() -> str:
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    return "all is well"


def raise_here() -> None:
    raise KeyError("here")


def return_the_rank() -> int:
    return int(os.environ["RANK"])


def test_results_come_in_the_order_of_ranks() -> None:
    assert run_group(return_the_rank, 2) == [0, 1]


def test_an_error_of_a_worker_fails_the_test() -> None:
    with pytest.raises(WorkerFailed, match="KeyError: 'here'"):
        run_group(raise_here, 1)


def test_an_error_in_a_thread_of_a_worker_fails_the_test() -> None:
    with pytest.raises(WorkerFailed, match=r"a thread of the worker died:(.|\n)*ZeroDivisionError"):
        run_group(raise_in_a_thread, 1)


def be_held_until_the_gate_opens() -> list[bool]:
    held = threading.Thread(target=wait_at, args=("gate",))
    held.start()
    wait_for_arrivals("gate", 1)
    was_held = held.is_alive()
    open_gate("gate")
    held.join()
    wait_at("gate")  # an open gate does not block later callers
    return [was_held, held.is_alive()]


def test_a_gate_holds_who_comes_until_it_is_opened() -> None:
    assert run_group(be_held_until_the_gate_opens, 1) == [[True, False]]


def listen_at_the_port_of_the_group() -> int:
    port = int(os.environ["MASTER_PORT"])
    with socket.create_server(("127.0.0.1", port)) as listener:
        return int(listener.getsockname()[1])


def test_the_port_of_a_group_goes_to_nobody_else() -> None:
    group = Group(__file__, 1)
    try:
        port = group[0].run(listen_at_the_port_of_the_group)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        assert group.end() == [0]
    finally:
        group.kill()

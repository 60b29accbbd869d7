"""Two launchers with `--nnodes 2 --max-restarts`: their workers end and restart together."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.launch.test_nodes import job_at
from tests.launch.test_restarts import AGAIN, WORKER

# Shorter than the default, since two tests wait for this time.
_LOST_S = 3
_LOST_BOUND_S = _LOST_S + 4.0
_WAITS = WORKER + "    signal.pause()\n"


@pytest.fixture
def start_nodes(start_run: Any, port: int) -> Callable[..., list[Any]]:
    """Return a function that starts two nodes: one with ranks 0 and 1, one with rank 2."""
    start = job_at(port, start_run)

    def start_both(text: str, *flags: str) -> list[Any]:
        patience = {"FASTDIST_FROZEN_S": str(_LOST_S)}
        return [start(node, text, flags=flags, environment=patience) for node in (0, 1)]

    return start_both


def _pids(nodes: list[Any], count: int) -> list[int]:
    return [nodes[rank // 2].number_after(f"start {count} of {rank} is") for rank in range(3)]


@pytest.mark.one_in(7)
def test_workers_of_all_nodes_start_again_at_their_places(
    start_nodes: Callable[..., list[Any]],
) -> None:
    text = """
    if count < 2 and rank == 2 - 2 * count:
        sys.exit(5 + count)
    if count == 2:
        from fastdist.distributed import rpc
        rpc.init_rpc(f"worker{rank}")
        print("calls", rpc.rpc_sync("worker2", pow, (2, 3)), os.environ["GROUP_RANK"])
        rpc.shutdown()
    """
    nodes = start_nodes(WORKER + text, "--max-restarts=2")
    assert [node.end(60.0) for node in nodes] == [0, 0]
    for rank in range(3):
        assert f"[rank {rank}] calls 8 {rank // 2}\n".encode() in nodes[rank // 2].out
    first, second = (node.err.decode() for node in nodes)
    assert "rank 2 failed with exit status 5" in second
    assert "node 1 (127.0.0.2) ended: rank 2 failed with exit status 5" in first
    assert "rank 0 failed with exit status 6" in first
    assert "node 0 (127.0.0.1) ended: rank 0 failed with exit status 6" in second
    for err in (first, second):
        assert AGAIN.format(1, 2) in err and AGAIN.format(2, 2) in err


@pytest.mark.one_in(7)
def test_the_last_failure_is_that_of_both_nodes(start_nodes: Callable[..., list[Any]]) -> None:
    text = "    rank == 2 and sys.exit(10 + count)\n    signal.pause()\n"
    nodes = start_nodes(WORKER + text, "--max-restarts=1")
    assert [node.end() for node in nodes] == [11, 11]
    assert b"node 1 (127.0.0.2) ended: rank 2 failed with exit status 11" in nodes[0].err


@pytest.mark.one_in(7)
def test_a_node_whose_workers_had_ended_well_starts_them_again_as_well(
    start_nodes: Callable[..., list[Any]],
) -> None:
    text = """
    from fastdist.distributed.rendezvous import rendezvous
    store = rendezvous("env://").store
    if rank == 2 and count == 0:
        store.wait(["0", "1"], 20)
        sys.exit(3)
    store.set(str(rank), "")
    """
    nodes = start_nodes(WORKER + text, "--max-restarts=1")
    assert [node.end() for node in nodes] == [0, 0]
    assert all(len(_pids(nodes, count)) == 3 for count in (0, 1))


@pytest.mark.one_in(7)
def test_workers_that_are_killed_on_one_node_and_then_on_the_other_come_back(
    start_nodes: Callable[..., list[Any]], watch: Callable[[int], Any]
) -> None:
    nodes = start_nodes(WORKER + "    count == 2 or signal.pause()\n", "--max-restarts=2")
    for count, victim in ((0, 2), (1, 1)):
        pids = _pids(nodes, count)
        left = [watch(pid) for pid in pids]
        os.kill(pids[victim], signal.SIGKILL)
        assert all(worker.ends_within(5.0) for worker in left)
    assert [node.end() for node in nodes] == [0, 0]
    assert len(_pids(nodes, 2)) == 3


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize("node", [0, 1])
def test_a_ctrl_c_on_one_node_while_the_other_still_ends_lets_no_round_begin(
    start_nodes: Callable[..., list[Any]], node: int
) -> None:
    # The workers of the other node ignore the signal.
    text = f"""
    if rank // 2 != {node}:
        signal.signal(signal.SIGTERM, lambda *_: print("is asked to end"))
    print("ready", rank)
    while True:
        signal.pause()
    """
    nodes = start_nodes(WORKER + text, "--max-restarts=5", "--shutdown-timeout=2")
    pids = _pids(nodes, 0)
    nodes[0].wait_for("ready 0"), nodes[0].wait_for("ready 1"), nodes[1].wait_for("ready 2")
    os.kill(pids[0 if node == 0 else 2], signal.SIGKILL)
    nodes[1 - node].wait_for("is asked to end")
    nodes[node].process.send_signal(signal.SIGINT)
    assert nodes[node].end(3.0) == 130
    assert nodes[1 - node].end(_LOST_BOUND_S) == 137
    assert all(b"start 1" not in each.out and b"again" not in each.err for each in nodes)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("node", [0, 1])
def test_a_ctrl_c_in_a_later_round_ends_both_nodes(
    start_nodes: Callable[..., list[Any]], node: int
) -> None:
    nodes = start_nodes(_WAITS, "--max-restarts=5")
    os.kill(_pids(nodes, 0)[1], signal.SIGKILL)
    _pids(nodes, 1)
    nodes[node].process.send_signal(signal.SIGTERM)
    assert nodes[node].end(3.0) == 143
    assert nodes[1 - node].end(_LOST_BOUND_S) == 143
    assert f"node {node} (127.0.0.{node + 1}) ended: ended by SIGTERM".encode() in (
        nodes[1 - node].err
    )


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize("node", [0, 1])
def test_a_launcher_that_is_killed_in_a_later_round_and_not_replaced_ends_the_other(
    start_nodes: Callable[..., list[Any]], node: int, watch: Callable[[int], Any]
) -> None:
    nodes = start_nodes(_WAITS, "--max-restarts=5", "--rejoin-timeout=1")
    os.kill(_pids(nodes, 0)[1], signal.SIGKILL)
    left = [watch(pid) for pid in _pids(nodes, 1)]
    nodes[node].process.kill()
    assert nodes[1 - node].end(_LOST_BOUND_S) == 1
    assert f"node {node} (127.0.0.{node + 1}) was lost".encode() in nodes[1 - node].err
    assert all(worker.ends_within(2.0) for worker in left)


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize("node", [0, 1])
def test_the_loss_of_a_node_ends_a_job_that_starts_single_workers(
    start_nodes: Callable[..., list[Any]], node: int
) -> None:
    nodes = start_nodes(_WAITS, "--max-restarts=5", "--restart=worker")
    _pids(nodes, 0)
    nodes[node].process.kill()
    assert nodes[1 - node].end(_LOST_BOUND_S) == 1
    assert b"--restart=group would wait for another launcher" in nodes[1 - node].err


@pytest.mark.one_in(7)
def test_a_launcher_that_is_killed_while_the_other_node_still_ends_ends_the_job(
    start_nodes: Callable[..., list[Any]],
) -> None:
    text = """
    if rank < 2:
        signal.signal(signal.SIGTERM, lambda *_: print("is asked to end"))
    print("ready", rank)
    while True:
        signal.pause()
    """
    options = ("--max-restarts=1", "--shutdown-timeout=1", "--rejoin-timeout=1")
    nodes = start_nodes(WORKER + text, *options)
    pid = _pids(nodes, 0)[2]
    nodes[0].wait_for("ready 0"), nodes[0].wait_for("ready 1")
    os.kill(pid, signal.SIGKILL)
    nodes[0].wait_for("is asked to end")
    nodes[1].process.kill()
    # Node 1 may have reported that all its workers have ended, or only that one has failed. If it
    # has not reported, node 0 waits for another launcher.
    assert nodes[0].end(2 * _LOST_BOUND_S) in (1, 137)
    assert b"node 1 (127.0.0.2) was lost" in nodes[0].err


@pytest.mark.one_in(7)
def test_nodes_that_disagree_on_restarts_all_say_who_said_what(start_run: Any, port: int) -> None:
    start = job_at(port, start_run)
    nodes = [start(node, _WAITS, flags=(f"--max-restarts={node}",)) for node in (0, 1)]
    assert [node.end() for node in nodes] == [1, 1]
    told = b"--max-restarts must be the same on every node, got node 0 (127.0.0.1) 0, node 1 ("
    assert all(told in node.err for node in nodes)

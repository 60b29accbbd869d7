"""Two `fastdist run --nnodes 2`, on 127.0.0.1 and 127.0.0.2: joining, ending, and a lost node."""

from __future__ import annotations

import os
import re
import secrets
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from multiprocessing import connection
from typing import Any

import pytest

from bench.kept_port import KeptPort
from fastdist.launch.nodes import BEAT_S, LOST_S
from tests.distributed.way import Way
from tests.launch.test_rpc_jobs import EARLY, ENDLESS
from tests.standstill import freeze

# The time in which the other node notices the loss, ends its workers and reports.
_LOST_BOUND_S = LOST_S + 4.0
_WAITING = """
    import os, signal
    print("pid of", os.environ["RANK"], "is", os.getpid())
    signal.pause()
"""
StartNode = Callable[..., Any]


@pytest.fixture
def way(port: int) -> Iterator[Way]:
    """Yield a link to node 0, for processes that connect to 127.0.0.3."""
    way = Way(port)
    yield way
    way.close()


@pytest.fixture
def start_node(start_run: Any, port: int) -> StartNode:
    """Return a function that starts node K of two, with two workers on node 0 and one on node 1."""
    return job_at(port, start_run)


def job_at(port: int, start_run: Any) -> StartNode:
    secret = secrets.token_hex(32)

    def start(
        node: int,
        text: str,
        *,
        secret: str = secret,
        nodes: int = 2,
        address: str = "",
        master: str = "127.0.0.1",
        transports: str = "",
        flags: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Any:
        environment = {"FASTDIST_JOB_SECRET": secret, **(environment or {})}
        if transports:
            environment["FASTDIST_TRANSPORTS"] = transports
        return start_run(
            text,
            f"-n{2 - node}",
            f"--nnodes={nodes}",
            f"--node-rank={node}",
            f"--master-addr={master}",
            f"--master-port={port}",
            f"--local-addr={address or f'127.0.0.{node + 1}'}",
            *flags,
            environment=environment,
        )

    return start


@pytest.mark.one_in(7)
def test_ranks_go_on_from_node_to_node(start_node: StartNode) -> None:
    text = """
        import os
        names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK FASTDIST_ADDRESS"
        print(*[os.environ[name] for name in names.split()])
    """
    nodes = [start_node(1, text), start_node(0, text)]
    assert [node.end() for node in nodes] == [0, 0]
    assert nodes[0].out == b"[rank 2] 2 3 0 1 1 127.0.0.2\n"
    assert sorted(nodes[1].out.splitlines()) == [
        b"[rank 0] 0 3 0 2 0 127.0.0.1",
        b"[rank 1] 1 3 1 2 0 127.0.0.1",
    ]


@pytest.mark.one_in(7)
def test_a_failure_ends_both_nodes_with_its_status_and_name(start_node: StartNode) -> None:
    first = start_node(0, _WAITING)
    second = start_node(1, "import sys; sys.exit(9)")
    assert [second.end(), first.end()] == [9, 9]
    assert b"rank 2 failed with exit status 9" in second.err
    assert b"node 1 (127.0.0.2) ended: rank 2 failed with exit status 9" in first.err
    # Node 0 ended because of that failure, so node 1 reports no later failure.
    assert b"later, " not in second.err


@pytest.mark.one_in(7)
def test_a_worker_that_is_killed_is_named_first_on_the_other_node_as_well(
    start_node: StartNode, watch: Callable[[int], Any]
) -> None:
    # All workers of node 0 end because of the loss. Node 1 is stopped, so it reports later.
    text = ENDLESS.replace("rank == 0 and", "rank < 2 and")
    nodes = first, second = [start_node(node, text, transports="uv") for node in (0, 1)]
    pids = [nodes[rank // 2].number_after(f"pid of {rank} is") for rank in range(3)]
    left = [watch(pid) for pid in pids[:2]]
    freeze(second.process.pid)
    os.kill(pids[2], signal.SIGKILL)
    assert all(worker.ends_within(_LOST_BOUND_S) for worker in left)
    second.process.send_signal(signal.SIGCONT)
    assert [second.end(_LOST_BOUND_S), first.end(_LOST_BOUND_S)] == [137, 137]
    lines = first.err.decode().splitlines()
    assert "node 1 (127.0.0.2) ended: rank 2 was killed by SIGKILL" in lines[-1]
    (later,) = (line for line in lines if "fastdist.run: later, " in line)
    assert "failed: fastdist.core.errors.WorkerLostError: worker 'worker2' (rank 2)" in later


@pytest.mark.one_in(7)
def test_who_waits_for_a_worker_that_has_ended_on_another_node_is_told(
    start_node: StartNode,
) -> None:
    nodes = [start_node(node, EARLY.replace("RANK_THAT_ENDS", "2")) for node in (0, 1)]
    assert [node.end() for node in nodes] == [1, 1]
    assert b"rank 2 of 3 ended without joining" in nodes[0].err


@pytest.mark.one_in(7)
def test_a_killed_host_of_the_store_is_named_by_the_other(
    start_node: StartNode, watch: Callable[[int], Any]
) -> None:
    first, second = start_node(0, _WAITING), start_node(1, _WAITING)
    left = [watch(first.number_after(f"pid of {rank} is")) for rank in (0, 1)]
    left.append(watch(second.number_after("pid of 2 is")))
    first.process.kill()
    assert second.end(_LOST_BOUND_S) == 1
    assert b"node 0 (127.0.0.1) was lost" in second.err
    assert all(worker.ends_within(2.0) for worker in left)


@pytest.mark.one_in(7)
def test_a_lost_node_is_named_by_the_one_that_hosts_the_store(
    start_run: Any, watch: Callable[[int], Any]
) -> None:
    # Each job waits for as long as a network may be down, so all jobs run at the same time.
    ways = (killed, killed_among_calls, frozen, killed_after_a_failure)
    with ExitStack() as ports:
        kept = [ports.enter_context(closing(KeptPort())) for _ in ways]
        lost = [
            way_to_be_lost(job_at(port.number, start_run), watch)
            for way_to_be_lost, port in zip(ways, kept)
        ]
        for each in lost:
            next(each)
        for each in lost:
            assert list(each) == []


def killed(start_node: StartNode, watch: Callable[[int], Any]) -> Iterator[None]:
    first, second = start_node(0, _WAITING), start_node(1, _WAITING)
    left = [watch(first.number_after(f"pid of {rank} is")) for rank in (0, 1)]
    left.append(watch(second.number_after("pid of 2 is")))
    second.process.kill()
    assert left[2].ends_within(2.0)
    yield
    assert first.end(_LOST_BOUND_S) == 1
    assert b"node 1 (127.0.0.2) was lost" in first.err
    assert all(worker.ends_within(0.0) for worker in left)


def killed_among_calls(start_node: StartNode, watch: Callable[[int], Any]) -> Iterator[None]:
    nodes = first, second = [start_node(node, ENDLESS, transports="uv") for node in (0, 1)]
    left = [watch(nodes[rank // 2].number_after(f"pid of {rank} is")) for rank in range(3)]
    second.process.kill()
    yield
    assert first.end(_LOST_BOUND_S) == 1
    assert b"node 1 (127.0.0.2) was lost" in first.err
    assert all(worker.ends_within(1.0) for worker in left)


def frozen(start_node: StartNode, watch: Callable[[int], Any]) -> Iterator[None]:
    first, second = start_node(0, _WAITING), start_node(1, _WAITING)
    second.number_after("pid of 2 is")
    first.number_after("pid of 1 is")
    freeze(second.process.pid)
    yield
    assert first.end(_LOST_BOUND_S) == 1
    assert b"node 1 (127.0.0.2) was lost: not heard for" in first.err
    assert b"the job ends: with --max-restarts N it would wait for another launcher" in first.err


def killed_after_a_failure(start_node: StartNode, watch: Callable[[int], Any]) -> Iterator[None]:
    first = start_node(
        0,
        """
        import os, sys
        from multiprocessing import connection
        print("pid of", os.environ["RANK"], "is", os.getpid())
        if os.environ["RANK"] == "0":
            with connection.Listener(("127.0.0.1", 0)) as listener:
                print("port", listener.address[1])
                try:
                    listener.accept().recv()
                except EOFError:
                    raise SystemExit("my peer has gone")
        import signal; signal.pause()
        """,
    )
    second = start_node(1, _WAITING)
    second.number_after("pid of 2 is")
    peer = connection.Client(("127.0.0.1", first.number_after("port")))
    second.process.kill()
    peer.close()
    yield
    assert first.end(_LOST_BOUND_S) == 1
    assert b"rank 0 failed with exit status 1" in first.err
    assert b"later, node 1 (127.0.0.2) was lost" in first.err


@pytest.mark.one_in(7)
def test_a_network_that_is_down_for_a_moment_ends_no_job(start_node: StartNode, way: Way) -> None:
    text = """
        import os, signal
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        print("pid of", os.environ["RANK"], "is", os.getpid())
        signal.sigwait([signal.SIGUSR1])
        """
    first, second = start_node(0, text), start_node(1, text, master="127.0.0.3")
    pids = [first.number_after(f"pid of {rank} is") for rank in (0, 1)]
    pids.append(second.number_after("pid of 2 is"))
    way.cut()
    assert way.was_tried.wait(5.0)
    way.mend()
    for pid in pids:
        os.kill(pid, signal.SIGUSR1)
    # Each worker waits for the other one's result.
    assert [first.end(_LOST_BOUND_S), second.end(_LOST_BOUND_S)] == [0, 0]
    assert first.err == second.err == b""


@pytest.mark.one_in(7)
def test_a_node_without_the_right_secret_does_not_join(start_node: StartNode) -> None:
    first = start_node(0, _WAITING)
    second = start_node(1, _WAITING, secret=secrets.token_hex(32))
    assert second.end(5.0) == 1
    assert b"node 1 could not join the job: the store at tcp://127.0.0.1" in second.err
    assert b"refused the handshake" in second.err
    first.process.send_signal(signal.SIGINT)
    assert first.end() == 130


@pytest.mark.one_in(7)
def test_nodes_that_disagree_on_their_number_all_say_who_said_what(start_node: StartNode) -> None:
    nodes = [start_node(0, _WAITING), start_node(1, _WAITING, nodes=3)]
    assert [node.end() for node in nodes] == [1, 1]
    told = "--nnodes must be the same on every node, got node 0 (127.0.0.1) 2, node 1 (127.0.0.2) 3"
    for number, node in enumerate(nodes):
        assert f"node {number} could not join the job: {told}".encode() in node.err


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize("address", ["127.0.0.7", "127.0.0.2"])
def test_a_node_rank_that_is_given_twice_ends_all_who_wait(
    start_node: StartNode, address: str
) -> None:
    nodes = [
        start_node(0, _WAITING, nodes=3),
        start_node(1, _WAITING, nodes=3),
        start_node(1, _WAITING, nodes=3, address=address),
    ]
    assert [node.end() for node in nodes] == [1, 1, 1]
    for node in nodes:
        assert b"--node-rank 1 was given twice, at 127.0.0." in node.err


@pytest.mark.one_in(7)
def test_a_node_rank_that_runs_already_is_refused_and_the_job_goes_on(
    start_node: StartNode,
) -> None:
    nodes = [start_node(0, _WAITING), start_node(1, _WAITING)]
    nodes[0].number_after("pid of 1 is")
    nodes[1].number_after("pid of 2 is")
    late = start_node(1, _WAITING, address="127.0.0.7")
    assert late.end() == 1
    assert b"--node-rank 1 was given twice, at 127.0.0.2 and at 127.0.0.7" in late.err
    nodes[0].process.send_signal(signal.SIGINT)
    assert nodes[0].end() == 130


@pytest.mark.one_in(7)
def test_a_node_that_waits_says_for_whom(start_node: StartNode) -> None:
    first = start_node(0, _WAITING)
    first.wait_for("fastdist: node 0 waits for node 1 of 2 (", of="err")
    first.wait_for(" of 300 s)\n", of="err")
    second = start_node(1, _WAITING)
    first.wait_for("fastdist: node 0 goes on after ", of="err")
    first.number_after("pid of 1 is")
    second.number_after("pid of 2 is")
    first.process.send_signal(signal.SIGINT)
    assert first.end() == 130


def test_a_node_without_a_store_says_where_it_looks(start_node: StartNode) -> None:
    second = start_node(1, _WAITING)
    second.wait_for("fastdist: node 1 waits for node 0 at 127.0.0.1:", of="err")
    second.process.send_signal(signal.SIGINT)
    assert second.end(3.0) == 130


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize("node", [0, 1])
def test_a_ctrl_c_on_one_node_ends_both(start_node: StartNode, node: int) -> None:
    nodes = [start_node(0, _WAITING), start_node(1, _WAITING)]
    nodes[0].number_after("pid of 1 is")
    nodes[1].number_after("pid of 2 is")
    nodes[node].process.send_signal(signal.SIGINT)
    assert nodes[node].end(3.0) == 130
    assert nodes[1 - node].end(_LOST_BOUND_S) in (1, 130)
    assert f"node {node} (127.0.0.{node + 1})".encode() in nodes[1 - node].err


@pytest.mark.one_in(7)
def test_a_ctrl_c_on_a_node_whose_workers_have_ended_well_ends_both(
    start_node: StartNode, watch: Callable[[int], Any]
) -> None:
    text = """
        import os, signal
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        print("pid of", os.environ["RANK"], "is", os.getpid())
        signal.sigwait([signal.SIGUSR1])
        """
    first, second = start_node(0, _WAITING), start_node(1, text)
    first.number_after("pid of 1 is")
    pid = second.number_after("pid of 2 is")
    worker = watch(pid)
    os.kill(pid, signal.SIGUSR1)
    assert worker.ends_within(5.0)
    second.process.send_signal(signal.SIGINT)
    assert second.end(3.0) == 130
    assert first.end(_LOST_BOUND_S) == 130
    assert b"node 1 (127.0.0.2) ended: ended by SIGINT" in first.err


@pytest.mark.one_in(7)
def test_waiting_for_the_other_nodes_can_be_interrupted(start_node: StartNode) -> None:
    host = start_node(0, _WAITING)
    host.wait_for("fastdist: node 0 waits for node 1 of 2 (", of="err")
    host.process.send_signal(signal.SIGINT)
    assert host.end(3.0) == 130


def test_a_node_whose_node_0_never_comes_names_it(start_node: StartNode) -> None:
    second = start_node(1, _WAITING, flags=("--init-timeout=0.5",))
    assert second.end() == 1
    told = b"node 1 could not join the job: node 0, which hosts the store, did not come within 1 s"
    assert told in second.err


def test_a_beat_is_much_shorter_than_the_silence_that_counts_as_loss() -> None:
    assert LOST_S >= 10 * BEAT_S


@pytest.mark.one_in(7)
def test_node_0_hears_of_a_node_with_another_secret_at_once_and_in_its_error(
    start_node: StartNode,
) -> None:
    second = start_node(1, _WAITING, secret=secrets.token_hex(32))
    second.wait_for("fastdist: node 1 waits for node 0 at", of="err")
    first = start_node(0, _WAITING, flags=("--init-timeout=6",))
    assert second.end() == 1
    first.wait_for(
        "fastdist: a connection from 127.0.0.1 was refused at tcp://127.0.0.1:", of="err"
    )
    assert first.end() == 1
    told = b"node 0 could not join the job: node 1 of 2 did not come within 6 s; look for what"
    assert told in first.err
    why = b"127.0.0.1: it has another job secret"
    assert re.search(rb"refused by the store meanwhile: \d+ from " + re.escape(why), first.err)
    told = [line.partition(b"was refused at ")[2] for line in first.err.splitlines()]
    assert sum(b": it has another job secret" in line for line in told) == 1
    # When node 0 gave up, node 1 may have begun an attempt to connect without sending anything yet.
    others = [line for line in told if line and b": it has another job secret" not in line]
    assert all(b": it left, or fell silent" in line for line in others) and len(others) <= 1


@pytest.mark.one_in(7)
def test_every_node_ends_in_time_and_names_the_node_that_never_came(start_node: StartNode) -> None:
    # Node 1 starts first with a longer timeout, and gets the reason from node 0.
    second = start_node(1, _WAITING, nodes=3, environment={"FASTDIST_INIT_TIMEOUT": "0"})
    second.wait_for("fastdist: node 1 waits for node 0 at", of="err")
    first = start_node(0, _WAITING, nodes=3, environment={"FASTDIST_INIT_TIMEOUT": "4"})
    for number, node in enumerate((first, second)):
        assert node.end() == 1
        assert (
            f"node {number} could not join the job: node 2 of 3 did not come".encode() in node.err
        )


def test_workers_are_told_the_init_timeout_of_the_command_line(run_command: Any) -> None:
    text = "import os; print(os.environ['FASTDIST_INIT_TIMEOUT'])"
    run = run_command("--init-timeout=7", "-m", "timeit", "-n1", "-r1", text)
    assert run.end() == 0
    assert b"[rank 0] 7\n" in run.out

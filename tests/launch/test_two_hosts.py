"""A job on two machines whose cable is pulled, for a moment and permanently."""

from __future__ import annotations

import secrets
import shlex
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

import fastdist
from fastdist.launch.nodes import LOST_S
from tests.launch.two_hosts import ADDRESSES, TwoHosts

pytestmark = pytest.mark.namespaces

_JOB = """
    import os, sys, time
    from fastdist.distributed import rpc

    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    peer, longest = f"worker{1 - rank}", 0.0
    rpc.rpc_sync(peer, divmod, args=(7, 2))
    print("called")
    while longest < float(sys.argv[1]):
        start = time.monotonic()
        assert rpc.rpc_sync(peer, divmod, args=(7, 2)) == (3, 1)
        longest = max(longest, time.monotonic() - start)
    rpc.shutdown()
    print("outlived it")
"""


StartHosts = Callable[..., TwoHosts]


@pytest.fixture
def start_hosts(tmp_path: Path) -> Iterator[StartHosts]:
    """Yield a function that starts a job on two machines; the job ends after `ends_after_s`."""
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(_JOB))
    root = Path(fastdist.__file__).parents[1]
    secret = secrets.token_hex(32)
    with closing(TwoHosts()) as hosts:

        def start(
            ends_after_s: float = 2.5,
            *variables: str,
            boots: Sequence[str] = ("boot-0", "boot-1"),
        ) -> TwoHosts:
            hosts.lay_cable(tmp_path, boots)
            for node, address in enumerate(ADDRESSES):
                command = [
                    *["env", f"PYTHONPATH={root}", f"FASTDIST_JOB_SECRET={secret}", *variables],
                    *[sys.executable, "-m", "fastdist.run", "--nnodes=2", f"--node-rank={node}"],
                    *[f"--master-addr={ADDRESSES[0]}", "--master-port=29500"],
                    *[f"--local-addr={address}", str(script), str(ends_after_s)],
                ]
                hosts.tell(node, f"{{ {shlex.join(command)}; echo status $?.; }} &")
            for run in hosts.runs:
                run.wait_for("called")
            return hosts

        yield start


@pytest.fixture
def hosts(start_hosts: StartHosts) -> TwoHosts:
    return start_hosts()


def test_a_job_outlives_a_cable_that_is_pulled_for_a_moment(hosts: TwoHosts) -> None:
    hosts.set_cable("down")
    for run in hosts.runs:
        run.wait_for("gives no sign of life", of="err")
    hosts.set_cable("up")
    for run in hosts.runs:
        run.wait_for("outlived it")
        run.wait_for("status 0.")


def pull_cable_for(seconds: float, hosts: TwoHosts) -> None:
    hosts.set_cable("down")
    threading.Event().wait(seconds)
    hosts.set_cable("up")
    for run in hosts.runs:
        run.wait_for("outlived it")
        run.wait_for("status 0.")


@pytest.mark.parametrize(
    "boots", [("boot-0", "boot-1"), ("boot", "boot")], ids=["machines", "containers of one machine"]
)
def test_a_job_outlives_a_cable_that_is_pulled_for_seven_seconds(
    start_hosts: StartHosts, boots: Sequence[str]
) -> None:
    pull_cable_for(7.0, start_hosts(6.0, boots=boots))


def test_a_job_that_is_told_to_outlives_a_cable_that_is_pulled_for_longer(
    start_hosts: StartHosts,
) -> None:
    pull_cable_for(13.0, start_hosts(11.0, "FASTDIST_FROZEN_S=25"))


@pytest.mark.slow  # in runs without --slow, test_nodes.py freezes a node
def test_a_cable_that_is_pulled_for_good_is_an_error_at_both_ends(hosts: TwoHosts) -> None:
    hosts.set_cable("down")
    for node, run in enumerate(hosts.runs):
        run.wait_for("status 1.", LOST_S + 5.0)
        lost = f"node {1 - node} ({ADDRESSES[1 - node]}) was lost", f"worker 'worker{1 - node}'"
        assert any(name in run.err.decode() for name in lost)
        assert "nobody listens" not in run.err.decode()

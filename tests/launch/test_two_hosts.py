"""A job on two machines whose cable is pulled: for a moment, and for good."""

from __future__ import annotations

import secrets
import shlex
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import fastdist
from fastdist.launch.nodes import LOST_S
from tests.launch.two_hosts import ADDRESSES, TwoHosts

pytestmark = pytest.mark.namespaces

_JOB = """
    import os, time
    from fastdist.distributed import rpc

    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    peer, longest = f"worker{1 - rank}", 0.0
    rpc.rpc_sync(peer, divmod, args=(7, 2))
    print("called")
    while longest < 2.5:
        start = time.monotonic()
        assert rpc.rpc_sync(peer, divmod, args=(7, 2)) == (3, 1)
        longest = max(longest, time.monotonic() - start)
    rpc.shutdown()
    print("outlived it")
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[TwoHosts]:
    """Two machines on which the job runs, and calls go to and fro."""
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(_JOB))
    root = Path(fastdist.__file__).parents[1]
    secret = secrets.token_hex(32)
    with closing(TwoHosts()) as hosts:
        hosts.lay_cable(tmp_path)
        for node, address in enumerate(ADDRESSES):
            command = [
                *["env", f"PYTHONPATH={root}", f"FASTDIST_JOB_SECRET={secret}"],
                *[sys.executable, "-m", "fastdist.run", "--nnodes=2", f"--node-rank={node}"],
                *[f"--master-addr={ADDRESSES[0]}", "--master-port=29500"],
                *[f"--local-addr={address}", str(script)],
            ]
            hosts.tell(node, f"{{ {shlex.join(command)}; echo status $?.; }} &")
        for run in hosts.runs:
            run.wait_for("called")
        yield hosts


def test_a_job_outlives_a_cable_that_is_pulled_for_a_moment(hosts: TwoHosts) -> None:
    hosts.set_cable("down")
    for run in hosts.runs:
        run.wait_for("gives no sign of life", of="err")
    hosts.set_cable("up")
    for run in hosts.runs:
        run.wait_for("outlived it")
        run.wait_for("status 0.")


@pytest.mark.slow  # test_nodes.py freezes a node in every run
def test_a_cable_that_is_pulled_for_good_is_an_error_at_both_ends(hosts: TwoHosts) -> None:
    hosts.set_cable("down")
    for node, run in enumerate(hosts.runs):
        run.wait_for("status 1.", LOST_S + 5.0)
        lost = f"node {1 - node} ({ADDRESSES[1 - node]}) was lost", f"worker 'worker{1 - node}'"
        assert any(name in run.err.decode() for name in lost)

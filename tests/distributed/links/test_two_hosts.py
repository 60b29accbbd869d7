"""Groups over two machines with two members each: sums, and a cable that is pulled for good."""

from __future__ import annotations

import secrets
import shlex
import sys
import textwrap
from pathlib import Path

import pytest

import fastdist
from tests.launch.two_hosts import ADDRESSES, TwoHosts

pytestmark = pytest.mark.namespaces

_JOB = """
    import time
    import numpy as np
    from fastdist.core.errors import CollectiveError
    from fastdist.distributed.links import connect
    from fastdist.distributed.process_group.transport import Call
    from fastdist.distributed.rendezvous import rendezvous

    store, rank, size = rendezvous("env://")
    group = connect(store, rank, size, 30.0)
    assert group._meeting.machine.count == 2
    assert group._post.seal == "encrypted"
    sequence = 0
    while True:
        for length in (3, 1_000_000):
            sequence += 1
            array = np.full(length, rank + 1.0)
            call = Call(sequence, "all_reduce", "", "job.py:1", time.monotonic() + 60)
            try:
                group.all_reduce(call, array, "sum")
            except CollectiveError as error:
                as_before = bool((array == rank + 1.0).all())
                print(f"rank {rank} lost: {type(error).__name__} {as_before} {error}", flush=True)
                raise SystemExit(0)
            assert (array == 10.0).all()
        if sequence == 2:
            print(f"rank {rank} summed", flush=True)
        time.sleep(0.05)
"""
# RPC gives a silent worker up after 10 s.
_LOST_S = 12.0


def test_sums_over_two_machines_and_a_cable_that_is_pulled(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(_JOB))
    root, secret = Path(fastdist.__file__).parents[1], secrets.token_hex(32)
    hosts = TwoHosts()
    try:
        hosts.lay_cable(tmp_path)
        for node, address in enumerate(ADDRESSES):
            command = [
                *["env", f"PYTHONPATH={root}", f"FASTDIST_JOB_SECRET={secret}"],
                *[sys.executable, "-m", "fastdist.run", "--nnodes=2", f"--node-rank={node}"],
                *["--nproc-per-node=2", f"--master-addr={ADDRESSES[0]}", "--master-port=29500"],
                *[f"--local-addr={address}", str(script)],
            ]
            hosts.tell(node, f"{{ {shlex.join(command)}; echo status $?.; }} &")
        for node, run in enumerate(hosts.runs):
            for rank in (2 * node, 2 * node + 1):
                run.wait_for(f"rank {rank} summed")
        hosts.set_cable("down")
        for node, run in enumerate(hosts.runs):
            for rank in (2 * node, 2 * node + 1):
                run.wait_for(f"rank {rank} lost: CollectiveLostError True rank ", _LOST_S)
    finally:
        hosts.close()

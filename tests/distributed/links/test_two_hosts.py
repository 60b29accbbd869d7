"""Groups over two machines with two members each: a slow link, and a pulled cable."""

from __future__ import annotations

import secrets
import shlex
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import fastdist
from tests.launch.conftest import BOUND_S
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
    group = connect(store, rank, size, 30.0, notice_s=0.3, frozen_s=4.0)
    assert group._meeting.machine.count == 2
    assert group._post.seal == "encrypted"
    sequence = 0
    while True:
        for length in (3, 1_000_000):
            sequence += 1
            array = np.full(length, rank + 1.0)
            began = time.monotonic()
            call = Call(sequence, "all_reduce", "", "job.py:1", began + 60)
            try:
                group.all_reduce(call, array, "sum")
            except CollectiveError as error:
                as_before = bool((array == rank + 1.0).all())
                print(f"rank {rank} lost: {type(error).__name__} {as_before} {error}", flush=True)
                raise SystemExit(0)
            assert (array == 10.0).all()
            if time.monotonic() > began + 1.0:
                print(f"rank {rank} waited for {time.monotonic() - began:.3g} s", flush=True)
            elif length > 3:
                print(f"rank {rank} was quick", flush=True)
        if sequence == 2:
            print(f"rank {rank} summed", flush=True)
        time.sleep(0.05)
"""
# All ranks must report the loss in this time. A silent member is declared lost after 4 s, before
# the launcher gives up the other node.
_LOST_S = 9.0


# How long the cable is down. Then sums continue as soon as TCP has sent the lost data again, which
# it tries at growing intervals.
_SHORT_CUT_S = 2.0


def wait_for_all(hosts: TwoHosts, text: str, timeout_s: float = BOUND_S) -> None:
    """Wait until all ranks have printed a text."""
    for node, run in enumerate(hosts.runs):
        for rank in (2 * node, 2 * node + 1):
            run.wait_for(text.format(rank=rank), timeout_s)


def test_sums_outlive_a_slow_link_and_a_short_cut_but_no_cable_that_is_pulled(
    tmp_path: Path,
) -> None:
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
        wait_for_all(hosts, "rank {rank} summed")
        # 8 MB each way take 3 s; each leader's warning names the leader of the other machine.
        hosts.limit_cable("20mbit")
        for run, leader in zip(hosts.runs, (2, 0), strict=True):
            run.wait_for(f" s for rank {leader} (pid", of="err")
        wait_for_all(hosts, "rank {rank} waited for ")
        hosts.limit_cable()
        for text in ("rank {rank} was quick", ""):
            for run in hosts.runs:
                run.out = b""
            wait_for_all(hosts, text)
        hosts.set_cable("down")
        threading.Event().wait(_SHORT_CUT_S)
        hosts.set_cable("up")
        wait_for_all(hosts, "rank {rank} waited for ")
        for run in hosts.runs:
            assert b"lost" not in run.out
        hosts.set_cable("down")
        wait_for_all(hosts, "rank {rank} lost: CollectiveLostError True rank ", _LOST_S)
    finally:
        hosts.close()

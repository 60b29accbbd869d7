"""Processes of a job prove that they belong to it, and the proof is never shown."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.certificates import make_certificates

_JOB = """
    import os
    from fastdist.distributed import rpc

    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}")
    for other in range(int(os.environ["WORLD_SIZE"])):
        assert rpc.rpc_sync(f"worker{other}", divmod, args=(7, 2)) == (3, 1)
    rpc.shutdown()
    print("done")
"""


@pytest.mark.one_in(7)
def test_a_job_of_one_node_runs_with_certificates(start_run: Any, tmp_path: Path) -> None:
    folder = make_certificates(tmp_path / "certificates", 2)
    environment = {"FASTDIST_SECURITY": "certs", "FASTDIST_CERTIFICATES": folder}
    run = start_run(_JOB, "-n", "2", environment=environment)
    assert run.end() == 0, run.err
    assert run.out.count(b"done") == 2


@pytest.mark.one_in(7)
def test_each_node_needs_the_secret_keys_of_its_own_ranks_alone(
    start_run: Any, tmp_path: Path, port: int
) -> None:
    whole = make_certificates(tmp_path / "certificates", 2)
    job = ["--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={port}", "-n1"]
    runs = []
    for node, own in ((0, ("rank-0", "store")), (1, ("rank-1",))):
        folder = tmp_path / f"node {node}"
        shutil.copytree(whole, folder)
        for path in folder.glob("*.key_secret"):
            if path.stem not in own:
                os.unlink(path)
        environment = {"FASTDIST_SECURITY": "certs", "FASTDIST_CERTIFICATES": str(folder)}
        place = [f"--node-rank={node}", f"--local-addr=127.0.0.{node + 1}"]
        runs.append(start_run(_JOB, *job, *place, environment=environment))
    for run in runs:
        assert run.end() == 0, run.err
        assert run.out.count(b"done") == 1


_TELLS_ALL = """
    import gc, os, pathlib, traceback
    from fastdist.distributed import rpc
    from fastdist.distributed import sockets
    import logging

    logging.basicConfig(level=logging.DEBUG)
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}")
    agent = rpc._get_current_rpc_agent()
    assert rpc.rpc_sync("worker0", divmod, args=(7, 2)) == (3, 1)
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                print((entry / "cmdline").read_bytes())
            except OSError:
                pass  # it has just ended
    print(rpc._get_debug_info(), vars(agent), agent.store, vars(agent.store))
    kinds = (sockets.JobSecret, sockets.CurveSecurity, sockets.Socket, sockets.Connections)
    shown = [thing for thing in gc.get_objects() if isinstance(thing, kinds)]
    assert {type(thing) for thing in shown} >= set(kinds[1:])
    print(*shown)
    # The end of one ends the other, wherever that is by then.
    if rank == 0:
        agent.store.set("worker0 has told all", "")
    else:
        agent.store.wait(["worker0 has told all"])
        raise ValueError(str(agent.store))
"""


@pytest.mark.one_in(7)
def test_a_secret_is_shown_in_no_command_line_log_repr_or_traceback(start_run: Any) -> None:
    secret = secrets.token_hex(32)
    environment = {"FASTDIST_JOB_SECRET": secret, "FASTDIST_TRANSPORTS": "uv"}
    run = start_run(_TELLS_ALL, "-n", "2", environment=environment, starts_workers=True)
    assert run.end() == 1
    # The assertion shows all output: a worker that fails to read command lines prints many lines.
    told = run.err.decode(errors="replace").replace(secret, "THE SECRET")
    assert b"cmdline" not in run.err, told
    assert b"ValueError: PrefixStore" in run.err, told
    for stream in (run.out, run.err):
        assert secret.encode() not in stream
        assert repr(bytes.fromhex(secret))[2:-1].encode() not in stream
    assert b"CurveSecurity('rank:1', job_id='', JobSecret(FASTDIST_JOB_SECRET))" in run.out

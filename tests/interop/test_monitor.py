"""Metrics pages served by prometheus_client, and tables by rich."""

from __future__ import annotations

import io
import os
import signal
import socket
import urllib.request
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import pytest

from bench.kept_port import KeptPort
from fastdist.launch.top_table import as_tables
from tests.launch.conftest import private, run_command, start_run, watch
from tests.launch.test_top import reading, worker

pytestmark = pytest.mark.interop("prometheus_client", "rich")
__all__ = ["private", "run_command", "start_run", "watch"]

_SERVES = """
import os, signal
import fastdist as torch
import fastdist.distributed as dist
import fastdist.distributed.rpc as rpc

rank, stop = int(os.environ["RANK"]), []
signal.signal(signal.SIGUSR1, lambda *_: stop.append(1))
rpc.init_rpc(f"worker{rank}")
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1000))
print("pid of", rank, "is", os.getpid(), flush=True)
while rank == 0 and not stop:
    try:
        rpc.rpc_sync("worker1", torch.add, args=(torch.ones(10), 1.0))
    except Exception as error:
        print("lost", type(error).__name__, flush=True)
        break
while not stop:
    signal.pause()
os._exit(0)
"""


def page(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10.0) as answer:
        return str(answer.read().decode())


def samples(port: int) -> dict[tuple[str, str], float]:
    from prometheus_client.parser import text_string_to_metric_families

    found = {}
    for family in text_string_to_metric_families(page(port, "/metrics")):
        for sample in family.samples:
            peer = sample.labels.get("peer", sample.labels.get("group", ""))
            found[sample.name, peer] = sample.value
    return found


def test_a_job_under_load_serves_its_metrics_while_a_worker_is_killed(
    start_run: Callable[..., Any],
) -> None:
    # Worker 1 serves a page at the next port if this port is free. Otherwise it serves no page.
    with closing(KeptPort()) as kept:
        port = kept.number
        flags = ("-n2", "--restart=worker", "--max-restarts=1")
        job = start_run(_SERVES, *flags, environment={"FASTDIST_METRICS_PORT": str(port)})
        pids = [job.number_after(f"pid of {rank} is") for rank in range(2)]
        first = samples(port)
        assert first["fastdist_rpc_calls_total", "worker1"] > 0
        assert first["fastdist_collectives_total", "0"] >= 1
        assert first["fastdist_collective_bytes_total", "0"] >= 4000
        assert first["fastdist_resident_memory_bytes", ""] > 1e7
        assert first["fastdist_rpc_client_active_calls", ""] <= 1
        assert page(port, "/healthz") == "ok\n"
        text = page(port, "/metrics")
        assert os.environ.get("FASTDIST_JOB_SECRET", "no secret") not in text
        # Strangers: one sends nothing, and others do not send valid HTTP.
        idle = socket.create_connection(("127.0.0.1", port), 5.0)
        for rubbish in (b"\x16\x03\x01\x00\r\n\r\n", b"\0" * 20_000, b"DELETE / HTTP/1.1\n\n"):
            address = "127.0.0.1", port
            with suppress(ConnectionError), socket.create_connection(address, 5.0) as stranger:
                stranger.sendall(rubbish)
                stranger.recv(100)
        os.kill(pids[1], signal.SIGKILL)
        job.wait_for("lost WorkerLostError")
        later = samples(port)
        assert later["fastdist_rpc_errors_total", "worker1"] >= 1
        assert (
            later["fastdist_rpc_calls_total", "worker1"]
            >= first["fastdist_rpc_calls_total", "worker1"]
        )
        assert page(port, "/healthz") == "ok\n"
        idle.close()
        job.process.send_signal(signal.SIGINT)
        assert job.end() == 130
        with pytest.raises(OSError, match="refused"):
            page(port, "/healthz")


def test_rich_shows_what_plain_text_shows() -> None:
    from rich.console import Console

    now = {"what": "all_reduce", "line": "[bold]train.py:12", "for_s": 7.0}
    found = reading(worker(0, collectives=5, under_way=now), worker(1, collectives=4))
    out = io.StringIO()
    Console(file=out, width=200, color_system=None).print(as_tables(found, None, "h:1"))
    text = out.getvalue()
    assert "job at h:1: 1 node, 3 workers" in text
    assert "rank 0 in all_reduce at [bold]train.py:12 for 7.0 s: not there yet ranks 1, 2" in text
    assert "STALLS" in text and "w1" in text

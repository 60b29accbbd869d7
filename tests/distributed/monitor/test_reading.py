"""get_metrics() measures this process; the launcher and the HTTP server show its metrics."""

from __future__ import annotations

import json
import logging
import socket
import sys
from pathlib import Path

import pytest

import fastdist as torch
from fastdist import distributed as dist
from fastdist.distributed import monitor
from fastdist.distributed.monitor import beginning
from fastdist.distributed.monitor.answers import Answers, socket_path
from tests.short_folders import short_folder


def test_a_process_without_groups_shows_itself_alone() -> None:
    found = monitor.get_metrics()
    assert (found["rpc"], found["passes"], found["groups"]) == ({}, {}, [])
    assert found["rss_bytes"] > 10_000_000 and found["threads"] >= 1 and found["files"] > 2
    assert json.loads(json.dumps(found)) == found


def test_collectives_and_their_bytes_are_counted() -> None:
    with dist.HashStore() as store:
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        try:
            for _ in range(3):
                dist.all_reduce(torch.ones(10))
            dist.broadcast(torch.ones(5, dtype=torch.float64), 0)
            dist.barrier()
            (group,) = monitor.get_metrics()["groups"]
        finally:
            dist.destroy_process_group()
    assert (group["backend"], group["ranks"], group["under_way"]) == ("gloo", [0], None)
    assert (group["collectives"], group["bytes"]) == (5, 3 * 40 + 40)


def test_the_launcher_reads_a_worker_by_a_socket_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    with short_folder() as folder:
        Path(socket_path(folder, 3)).touch()  # left behind by an earlier worker
        answers = Answers(folder)
        answers.start()
        for _ in range(2):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(10.0)
                connection.connect(socket_path(folder, 3))
                text = b""
                while chunk := connection.recv(1 << 16):
                    text += chunk
            assert json.loads(text)["rank"] == 3
        answers.close()


@pytest.mark.parametrize(
    ("port", "local_rank", "expected"), [("", "1", None), ("9500", "", 9500), ("9500", "3", 9503)]
)
def test_each_worker_of_a_machine_has_a_port(
    port: str, local_rank: str, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTDIST_METRICS_PORT", port)
    monkeypatch.setenv("LOCAL_RANK", local_rank or "0")
    assert beginning.metrics_port() == expected


@pytest.mark.parametrize("port", ["x", "-1", "0", "70000", "65535", "9.5"])
def test_a_port_that_is_none_is_an_error(port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTDIST_METRICS_PORT", port)
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(ValueError, match="expected a port from 1 to 65535, to which each worker"):
        beginning.metrics_port()


def test_a_package_that_is_missing_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FASTDIST_METRICS_PORT", "9500")
    monkeypatch.delenv("FASTDIST_MONITOR_DIR", raising=False)
    monkeypatch.setattr(beginning, "_begun_by", 0)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "fastdist.distributed.monitor.exposition", raising=False)
    with caplog.at_level(logging.WARNING):
        monitor.begin()
        monitor.begin()
    (record,) = caplog.records
    assert "pip install prometheus_client" in record.getMessage()

"""init_rpc reports missing workers within its timeout."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from typing import Any

import pytest

from fastdist.core.errors import FastdistError
from fastdist.distributed import rpc
from tests.distributed.workers import Group
from tests.standstill import Standstill

SECRETS = ["a1" * 32, "b2" * 32]
# How far init_rpc may exceed its timeout, because the store and leaving workers send last messages.
SLACK_S = 5.0


def try_init(options: dict[str, Any] | None = None) -> tuple[str, float]:
    """Return init_rpc's error or "ok", and its duration without stops of this process."""
    began, told = time.monotonic(), "ok"
    with Standstill() as stood:
        try:
            rpc.init_rpc(
                f"w{os.environ['RANK']}",
                rpc_backend_options=rpc.TensorPipeRpcBackendOptions(**(options or {})),
            )
        except FastdistError as error:
            told = f"{type(error).__name__}: {error}"
    return told, time.monotonic() - began - stood.seconds


class Heard(logging.Handler):
    """Collects warnings of this process, and signals when one arrives."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self.is_told = threading.Condition()
        logging.getLogger("fastdist").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        with self.is_told:
            self.lines.append(record.getMessage())
            self.is_told.notify_all()


heard: list[Heard] = []
starting: list[threading.Thread] = []
outcomes: list[tuple[str, float]] = []


def begin(options: dict[str, Any]) -> None:
    """Start init_rpc in a thread, and collect its warnings."""
    heard.append(Heard())
    starting.append(threading.Thread(target=lambda: outcomes.append(try_init(options))))
    starting[0].start()


def warning() -> tuple[str, float]:
    """Return the first warning, and how long it took to arrive."""
    began = time.monotonic()
    with Standstill() as stood, heard[0].is_told:
        assert heard[0].is_told.wait_for(lambda: bool(heard[0].lines), 30)
    return heard[0].lines[0], time.monotonic() - began - stood.seconds


def outcome() -> tuple[str, float]:
    starting[0].join()
    return outcomes[0]


def take_secret(secret: str) -> None:
    os.environ["FASTDIST_JOB_SECRET"] = secret


@pytest.mark.one_in(8)
def test_rank_0_hears_of_a_worker_with_another_secret_at_once_and_in_its_error() -> None:
    group = Group(__file__, 2)
    try:
        for worker, secret in zip(group.workers, SECRETS):
            worker.run(take_secret, secret)
        group[1].start(try_init)
        group[0].run(begin, {"init_timeout": 6})
        told, _ = group[1].result()
        assert told.startswith("AuthenticationError: the store at tcp://127.0.0.1:")
        line, waited_s = group[0].run(warning)
        assert "a connection from 127.0.0.1 was refused at tcp://" in line and waited_s < 2.0
        told, _ = group[0].run(outcome)
        assert told.startswith("StoreTimeoutError") and "1 of 2 ranks did not join" in told
        assert re.search(r"they meet at TCPStore\('127\.0\.0\.1', \d+\), key '[^']+'\)", told)
        assert re.search(r"meanwhile: \d from 127\.0\.0\.1: it has another job secret", told)
        assert group.end() == [0, 0]
    finally:
        group.kill()


def ranks_that_did_not_come(told: str) -> str:
    found = re.search(r"of \d+ ranks did not join within [\d.]+ s: ([\d, ]+);", told)
    assert found is not None, told
    return found[1]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("absent", [[3], [2, 3]])
def test_every_rank_ends_in_time_and_names_the_ranks_that_never_came(absent: list[int]) -> None:
    group = Group(__file__, 4, {"FASTDIST_INIT_TIMEOUT": "5"})
    try:
        here = [worker for worker in group.workers if worker.rank not in absent]
        for worker in here:
            worker.run(take_secret, SECRETS[0])  # so the worker has finished its imports
        for worker in here:
            worker.start(try_init)
        for told, took_s in [worker.result() for worker in here]:
            assert told.startswith("StoreTimeoutError")
            assert ranks_that_did_not_come(told) == ", ".join(map(str, absent))
            assert took_s < 5.0 + SLACK_S
        assert group.end() == [0] * 4
    finally:
        group.kill()


@pytest.mark.one_in(8)
def test_ranks_that_wait_for_rank_0_say_where_nobody_answers_and_that_it_is_missing() -> None:
    group = Group(__file__, 3, {"FASTDIST_JOB_SECRET": SECRETS[0]})
    try:
        here = group.workers[1:]
        for worker in here:
            worker.start(try_init, {"init_timeout": 2})
        for told, took_s in [worker.result() for worker in here]:
            assert told.startswith(
                f"StoreTimeoutError: no store at tcp://127.0.0.1:{group.port.number}"
            )
            assert "nothing answers there" in told and "rank 0, which hosts it, is missing" in told
            assert took_s < 2.0 + SLACK_S
        assert group.end() == [0] * 3
    finally:
        group.kill()


@pytest.mark.one_in(8)
def test_a_worker_without_the_secret_of_the_others_is_told_of_it_within_3_s() -> None:
    group = Group(__file__, 2)
    try:
        group[0].run(take_secret, SECRETS[0])
        group[0].run(begin, {})
        told, took_s = group[1].run(try_init)
        assert told.startswith("AuthenticationError") and took_s < 3.0
        assert "was refused at tcp://" in group[0].run(warning)[0]
    finally:
        group.kill()


RPC_TIMEOUT_S = 0.1


def come_late() -> str:
    """Join, and later leave, each after more than a call's timeout."""
    threading.Event().wait(2 * RPC_TIMEOUT_S)
    told, _ = try_init({"rpc_timeout": RPC_TIMEOUT_S})
    threading.Event().wait(2 * RPC_TIMEOUT_S)
    rpc.shutdown()
    return told


def come_in_time() -> str:
    told, _ = try_init({"rpc_timeout": RPC_TIMEOUT_S})
    rpc.shutdown()
    return told


@pytest.mark.one_in(8)
def test_workers_wait_for_one_that_is_late_by_more_than_a_call_may_take() -> None:
    group = Group(__file__, 2)
    try:
        group[0].start(come_in_time)
        group[1].start(come_late)
        assert [worker.result() for worker in group.workers] == ["ok", "ok"]
        assert group.end() == [0, 0]
    finally:
        group.kill()

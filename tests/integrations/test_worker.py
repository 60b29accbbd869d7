"""One life of a worker: the environment it sets and restores, its secret, and its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fastdist.distributed as dist
from fastdist.core.errors import EngineError
from fastdist.distributed import rpc
from fastdist.distributed.rendezvous import from_env
from fastdist.distributed.sockets import JobSecret
from fastdist.integrations.group import Hub
from fastdist.integrations.worker import Life, environment_of, live
from fastdist.launch.environment import Place

SECRET = "5e" * 32


def life(**changes: Any) -> Life:
    place = Place(0, 1, 0, 1, "127.0.0.1", changes.pop("port", 29500), None)
    given: dict[str, Any] = {
        "restart_count": 0,
        "run_id": "ray.1",
        "restart": "worker",
        "settings": {"FASTDIST_FROZEN_S": "7"},
        "secret": SECRET,
        **changes,
    }
    return Life(place, 0, max_restarts=2, **given)


def test_the_environment_is_that_of_a_worker_and_is_given_back() -> None:
    before = dict(os.environ)
    with environment_of(life(restart_count=2)):
        place = from_env()
        assert (place.rank, place.world_size, place.local_rank) == (0, 1, 0)
        assert (place.store_host, place.store_port, place.store_hosted) == (
            "127.0.0.1",
            29500,
            True,
        )
        assert (place.incarnation, place.round_name) == (2, "ray.1.0")
        assert os.environ["FASTDIST_FROZEN_S"] == "7"
        assert dist.restart_count() == 2
    assert dict(os.environ) == before


def test_with_restarts_of_the_group_each_has_a_round() -> None:
    with environment_of(life(restart_count=2, restart="group")):
        assert from_env().round_name == "ray.1.2"


def test_the_secret_lies_in_no_environment_and_in_no_file_that_has_a_name() -> None:
    with environment_of(life()):
        found = JobSecret.from_environment()
        assert found is not None and found.hex() == SECRET
        assert SECRET not in str(dict(os.environ)) + repr(life())
        path = Path(os.environ["FASTDIST_JOB_SECRET_FILE"])
        assert os.readlink(path).startswith("/memfd:") and path.stat().st_mode & 0o777 == 0o600
        text = "import os; print(open(os.environ['FASTDIST_JOB_SECRET_FILE']).read())"
        child = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, check=True
        )
        assert child.stdout.strip() == SECRET
    assert not os.path.lexists(path)


def test_a_secret_of_the_environment_does_not_contradict_that_of_the_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FASTDIST_JOB_SECRET", "00" * 32)
    with environment_of(life()):
        found = JobSecret.from_environment()
        assert found is not None and found.hex() == SECRET


def test_a_process_is_one_worker_at_a_time() -> None:
    with environment_of(life()):
        done = live(life(), int, ())
    assert isinstance(done.error, EngineError) and "is rank 0 of another group" in str(done.error)


def test_a_value_and_an_exit_without_an_error_are_good_ends() -> None:
    assert live(life(), lambda a: a + 1, (1,)).value == 2
    done = live(life(), sys.exit, (0,))
    assert (done.value, done.failure) == (None, None)


def raise_on_purpose() -> None:
    raise ValueError("on purpose")


def test_an_error_has_its_traceback_from_the_program_on() -> None:
    done = live(life(), raise_on_purpose, ())
    assert isinstance(done.error, ValueError) and not done.is_lost
    assert done.failure is not None
    assert done.failure.startswith('Traceback (most recent call last):\n  File "')
    assert 'raise ValueError("on purpose")' in done.failure and "in live" not in done.failure


class Unpicklable(Exception):
    def __init__(self, one: int, other: int) -> None:
        super().__init__("of two")


def test_an_error_that_does_not_pickle_is_its_text() -> None:
    def fails() -> None:
        raise Unpicklable(1, 2)

    done = live(life(), fails, ())
    assert done.error is None and done.failure is not None and "of two" in done.failure
    done = live(life(), sys.exit, ("no data",))
    assert done.failure is not None and "SystemExit: no data" in done.failure


def test_what_is_open_when_a_function_raises_is_closed_and_the_next_life_is_the_first() -> None:
    hub = Hub("127.0.0.1")
    calls: list[object] = []

    def fails(port: int) -> None:
        dist.on_restart(calls.append)
        rpc.init_rpc("worker0")
        dist.init_process_group("zmq")
        raise ValueError("on purpose")

    def counts() -> int:
        rpc.init_rpc("worker0")
        rpc.shutdown()
        return dist.restart_count()

    try:
        first = live(life(port=hub.port, secret=hub.secret, restart_count=1), fails, (1,))
        assert first.failure is not None and "on purpose" in first.failure
        assert len(calls) == 1 and not dist.is_initialized()
        second = live(life(port=hub.port, secret=hub.secret, run_id="ray.2"), counts, ())
        assert (second.value, len(calls)) == (0, 1), second
    finally:
        hub.close()


def test_what_an_earlier_function_left_open_is_an_error_of_the_next() -> None:
    hub = Hub("127.0.0.1")
    try:
        done = live(life(port=hub.port, secret=hub.secret), rpc.init_rpc, ("worker0",))
        assert done.failure is None
        done = live(life(port=hub.port, secret=hub.secret), int, ())
        assert isinstance(done.error, EngineError) and "call rpc.shutdown() first" in str(
            done.error
        )
    finally:
        rpc.shutdown()
        hub.close()

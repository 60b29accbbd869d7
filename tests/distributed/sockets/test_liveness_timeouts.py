"""The allowed length of a silence, by options and environment variables."""

from __future__ import annotations

import os
import re

import pytest

from fastdist.distributed.rpc import TensorPipeRpcBackendOptions
from fastdist.distributed.sockets.liveness_timeouts import (
    FROZEN_S,
    crowding,
    frozen_s,
    grace_s,
)


def test_an_option_goes_before_the_environment_and_that_before_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("FASTDIST_FROZEN_S", "FASTDIST_GRACE_S"):
        monkeypatch.delenv(variable, raising=False)
    options = TensorPipeRpcBackendOptions()
    assert (options.frozen_s, options.grace_s) == (FROZEN_S, None)
    monkeypatch.setenv("FASTDIST_FROZEN_S", "60")
    monkeypatch.setenv("FASTDIST_GRACE_S", "2.5")
    options = TensorPipeRpcBackendOptions()
    assert (options.frozen_s, options.grace_s) == (60.0, 2.5)
    options = TensorPipeRpcBackendOptions(frozen_s=3, grace_s=0)
    assert (options.frozen_s, options.grace_s) == (3.0, 0.0)


@pytest.mark.parametrize("value", [2.9, 0, -1, float("inf"), float("nan")])
def test_less_than_a_connection_needs_to_come_back_and_for_ever_are_refused(value: float) -> None:
    text = f"frozen_s is {value!r}; expected seconds, 3 or more"
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        TensorPipeRpcBackendOptions(frozen_s=value)


def test_what_is_no_number_is_told_with_its_name() -> None:
    with pytest.raises(TypeError, match=r"^grace_s is '1 s'; expected a number of seconds$"):
        grace_s("1 s")
    with pytest.raises(ValueError, match=r"^FASTDIST_FROZEN_S is 'long'; expected a number of sec"):
        frozen_s(environment={"FASTDIST_FROZEN_S": "long"})
    with pytest.raises(ValueError, match=r"^FASTDIST_GRACE_S is -1\.0; expected seconds, 0 "):
        grace_s(environment={"FASTDIST_GRACE_S": "-1"})


@pytest.mark.parametrize(
    ("num_workers", "num_cores", "expected"),
    [(1, 2, 1.0), (8, 2, 1.0), (12, 2, 1.5), (64, 2, 8.0), (64, 64, 1.0), (10_000, 1, 30.0)],
)
def test_a_machine_is_crowded_from_four_workers_a_core_on(
    num_workers: int, num_cores: int, expected: float
) -> None:
    assert crowding(num_workers, num_cores) == expected


def test_the_cores_are_those_that_this_process_may_use() -> None:
    cores = len(os.sched_getaffinity(0))
    assert crowding(12 * cores) == 3.0


@pytest.mark.parametrize(
    ("option", "variable", "expected"),
    [(None, "", False), (10.0, "", True), (None, "10", True), (60.0, "", True)],
)
def test_what_was_said_is_known_from_the_default(
    option: float | None, variable: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTDIST_FROZEN_S", variable)
    options = TensorPipeRpcBackendOptions(frozen_s=option)
    assert options.is_frozen_s_chosen is expected
    options.frozen_s = 12.0
    assert options.is_frozen_s_chosen

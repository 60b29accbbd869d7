"""The error for an engine that is not installed says how to install it."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

import pytest


def test_ray_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastdist.integrations.ray import WorkerGroup

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match="not installed: pip install ray") as raised:
        WorkerGroup(2)
    assert raised.value.name == "ray"


def test_dask_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "fastdist.integrations.dask", raising=False)
    with pytest.raises(ImportError, match="package distributed: pip install distributed"):
        importlib.import_module("fastdist.integrations.dask")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_workers": 0}, ValueError, "the number of workers is 0"),
        ({"restart": "all"}, ValueError, "restart is 'all'; expected 'worker' or 'group'"),
        ({"strategy": "pack"}, ValueError, "strategy is 'pack'; expected one of PACK, SPREAD"),
        ({"start_timeout": -1}, ValueError, "start_timeout is -1; expected a positive number"),
        ({"start_timeout": "x"}, TypeError, "start_timeout is 'x'; expected a number of seconds"),
        ({"resources": "CPU"}, TypeError, "resources is 'CPU'; expected a dict such as {\"CPU\""),
        ({"resources": {"CPU": -1}}, ValueError, "resources has -1 for 'CPU'; expected 0 or more"),
        ({"resources": {"GPU": "1"}}, TypeError, "resources has '1' for 'GPU'; expected a number"),
        ({"resources": {}}, ValueError, "resources is {}; expected at least one above 0"),
    ],
)
def test_arguments_are_checked_before_ray_is_needed(
    arguments: dict[str, Any],
    error: type[Exception],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from fastdist.integrations.ray import WorkerGroup

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(error, match=re.escape(message)):
        WorkerGroup(**{"num_workers": 2, **arguments})

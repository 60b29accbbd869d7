"""The error for an engine that is not installed says how to install it."""

from __future__ import annotations

import importlib
import sys

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


def test_arguments_are_checked_before_anything_is_asked_of_ray() -> None:
    from fastdist.integrations.ray import WorkerGroup

    with pytest.raises(ValueError, match="the number of workers is 0"):
        WorkerGroup(0)
    with pytest.raises(ValueError, match="restart is 'all'; expected 'worker' or 'group'"):
        WorkerGroup(2, restart="all")

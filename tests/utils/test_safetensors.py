"""fastdist.utils.safetensors if the package `safetensors` is not installed."""

from __future__ import annotations

import sys

import pytest

import fastdist
from fastdist.utils import safetensors


def test_a_missing_package_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"pip install safetensors$"):
        safetensors.save({"x": fastdist.ones(1)})

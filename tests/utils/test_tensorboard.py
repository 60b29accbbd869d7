"""fastdist.utils.tensorboard if the package `tensorboard` is not installed."""

from __future__ import annotations

import importlib
import sys

import pytest


def test_without_the_package_the_import_says_which_extra_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "fastdist.utils.tensorboard", raising=False)
    with pytest.raises(ImportError, match=r"pip install tensorboard$"):
        importlib.import_module("fastdist.utils.tensorboard")

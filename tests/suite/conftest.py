"""A fixture that forks runs of pytest in other trees."""

from __future__ import annotations

import subprocess

import pytest

from tests.suite.forked_pytest import ForkedPytest


@pytest.fixture
def forked_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `subprocess` fork `python -m pytest`, so that no run starts Python or imports pytest."""
    monkeypatch.setattr(subprocess, "Popen", ForkedPytest)

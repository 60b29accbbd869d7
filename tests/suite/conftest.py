"""Forked runs of pytest in other trees."""

from __future__ import annotations

import subprocess

import pytest

from tests.suite.forked_pytest import ForkedPytest


@pytest.fixture
def forked_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `subprocess` fork `python -m pytest`, which saves Python's start and pytest's import."""
    monkeypatch.setattr(subprocess, "Popen", ForkedPytest)

"""A pytest plugin for tests.mutate: runs an evenly spaced sample of the tests that match words."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

# JSON: the words, the maximum number of tests, and the file that gets the id of each started test.
PICKED = "PYTEST_MUTATE_PICKED"


def is_picked(nodeid: str, words: list[str]) -> bool:
    """Return whether a test's name or parameters contain one of the words as a whole word."""
    name = nodeid.partition("::")[2]
    return not words or any(re.search(rf"(?<![a-z0-9]){w}(?![a-z0-9])", name) for w in words)


def thinned(items: list[Any], most: int) -> list[Any]:
    """Return at most `most` items, evenly spaced, so that each run chooses the same items."""
    if len(items) <= most:
        return items
    return [items[k * len(items) // most] for k in range(most)]


class Picking:
    """Deselects all tests outside the sample, and records each test when it starts."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._words, self._most, self._begun = told["words"], told["most"], Path(told["begun"])
        self._status = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = thinned([one for one in items if is_picked(one.nodeid, self._words)], self._most)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._begun.write_text(nodeid)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._status = int(exitstatus)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Exit immediately after a failure: the test may have left threads that never end."""
        if self._status not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            sys.stdout.flush()
            os._exit(self._status)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Read the environment variables and register the plugin."""
    if PICKED in os.environ:
        early_config.pluginmanager.register(Picking(json.loads(os.environ[PICKED])))

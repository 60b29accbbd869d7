"""Python programs that benchmarks start are forks of a process that has imported what they need."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.launch.forked_programs import ForkedPopen


@pytest.fixture(scope="module")
def forks() -> Iterator[None]:
    """Have `subprocess` fork the Python programs that this file of tests starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", ForkedPopen)
        yield

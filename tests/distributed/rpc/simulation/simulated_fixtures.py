"""Fixtures for tests with simulated groups: a simulated machine for a module, and cleanup per test.

A module that imports these fixtures uses them for all its tests.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.distributed.rpc.simulation.simulated_calls import scenarios
from tests.distributed.rpc.simulation.simulated_group import (
    end_group,
    forget_memory,
    simulated_machine,
)


@pytest.fixture(scope="module", autouse=True)
def machine() -> Iterator[None]:
    """Run agents in a simulated group."""
    with simulated_machine():
        yield


@pytest.fixture(autouse=True)
def group_ends(request: pytest.FixtureRequest) -> Iterator[None]:
    """Remove the group, the module's `scenarios` and their memory after each test."""
    yield
    end_group()
    for begun in (scenarios, getattr(request.module, "scenarios", scenarios)):
        begun.clear()
    forget_memory()


__all__ = ["group_ends", "machine"]

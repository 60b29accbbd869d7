"""Fixtures of tests on simulated groups: a machine for the module, and no group left by a test.

A module that imports them has them for all its tests.
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
    """Let agents live in a simulated group."""
    with simulated_machine():
        yield


@pytest.fixture(autouse=True)
def group_ends(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave no group, scenario (in a module's list of that name) or memory behind."""
    yield
    end_group()
    for begun in (scenarios, getattr(request.module, "scenarios", scenarios)):
        begun.clear()
    forget_memory()


__all__ = ["group_ends", "machine"]

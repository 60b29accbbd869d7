"""Fixtures of this folder: a single worker, and a group of three."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.distributed.autograd.fake_agent import agent as agent
from tests.distributed.autograd.programs import NOTHING, wait_for_no_context
from tests.distributed.members import members
from tests.distributed.workers import Group


@pytest.fixture(scope="module")
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    """Yield a group of three workers that run functions of the test's file."""
    with members(str(request.path), 3, rpc_timeout=30, init_timeout=30) as group:
        yield group


@pytest.fixture
def workers_hold_nothing(group: Group) -> Iterator[None]:
    """Check after the test that no context and no pass is left in a worker."""
    yield
    assert group.run_all(wait_for_no_context) == [NOTHING] * 3

"""What the tests of this folder share: a process that is a worker without others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fastdist.distributed.autograd as da
from fastdist.distributed.autograd import container as containers
from tests.distributed.autograd.fake_agent import FakeAgent, fake_agent


@pytest.fixture
def agent() -> Iterator[FakeAgent]:
    """Be worker 3, whose agent is a fake one."""
    da._init(3)
    with fake_agent() as fake:
        yield fake
    containers.clear_current_context_id()
    da._stop()

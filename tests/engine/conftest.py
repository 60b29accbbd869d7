"""A fixture for both loops that run backward passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastdist.engine.backward import modes_engine


@pytest.fixture(params=["inline", "engine"])
def loop(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test twice: all passes use the inline loop, and then all use the engine."""
    modes_engine.always = request.param == "engine"
    yield request.param
    modes_engine.always = False

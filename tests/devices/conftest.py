"""A fixture for a simulated device without threads or faults from earlier tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from fastdist.devices import backend_of
from fastdist.devices.sim import SimBackend


@pytest.fixture
def sim() -> Iterator[SimBackend]:
    backend = cast(SimBackend, backend_of("sim"))
    backend.reset()  # earlier tests may have used devices
    yield backend
    backend.set_device_count(2)

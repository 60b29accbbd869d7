"""The kinds of device on which tests are repeated: sim, which may run late; cuda on a CPU shim."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from fastdist.devices.backend import Backend, backend_of
from fastdist.devices.sim import SimBackend, SimEvent
from tests.fibre_shim import cupy
from tests.fibre_shim.installed import be_on_fibres, cuda_on_fibres

KINDS: Final = ("sim", "cuda")
_NAME: Final = "FASTDIST_TESTS_DEVICE_KIND"


def told(kind: str) -> dict[str, str]:
    """Return the environment variables that tell the workers of a group which kind to use."""
    return {_NAME: kind}


def kind_here() -> str:
    """Return the kind for this worker; if it is cuda, install the CuPy shim in this process."""
    return use(os.environ[_NAME])


def use(kind: str) -> str:
    """Return the given kind; if it is cuda, install the CuPy shim in this process."""
    if kind == "cuda":
        be_on_fibres()
    return kind


def backend_on(kind: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    """Yield the backend of a kind; for use in a fixture."""
    if kind == "cuda":
        yield from cuda_on_fibres(monkeypatch)
        return
    backend = backend_of(kind)
    yield backend
    if isinstance(backend, SimBackend):
        backend.set_device_count(2)


class Waits:
    """Counts this process's waits for devices of either kind, from when the counter is made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for owner, name in (
            *((SimEvent, name) for name in ("synchronize", "wait_quietly")),
            *((kind, "synchronize") for kind in (cupy.Event, cupy.Stream, cupy.Device)),
            (cupy, "asnumpy"),
        ):
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, wait: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            self.count += 1
            return wait(*args)

        return counted

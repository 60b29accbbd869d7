"""A stand-in for CuPy's NVTX that records pushed and popped ranges by thread."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from fastdist.devices import backend


class StandIn:
    available = True

    def __init__(self) -> None:
        self.pushed: list[str] = []
        self.open: dict[int, list[str]] = {}
        self.marked: list[str] = []
        self.started: dict[int, str] = {}

    def RangePush(self, message: str, id_color: int = -1) -> None:
        self.pushed.append(message)
        self.open.setdefault(threading.get_ident(), []).append(message)

    def RangePop(self) -> None:
        mine = self.open.get(threading.get_ident())
        if mine:  # NVTX ignores a pop without a range
            mine.pop()

    def Mark(self, message: str, id_color: int = -1) -> None:
        self.marked.append(message)

    def RangeStart(self, message: str, color: int | None) -> int:
        self.started[len(self.started) + 7] = message
        return len(self.started) + 6

    def RangeEnd(self, range_id: int) -> None:
        del self.started[range_id]


def install(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Install a GPU that does nothing, and a CuPy that only has NVTX, as stand-ins."""
    nvtx = StandIn()
    cuda = SimpleNamespace(synchronize=lambda index=None: None, device_count=lambda: 0)
    monkeypatch.setitem(backend._loaded, "cuda", cuda)  # type: ignore[arg-type]
    cupy = SimpleNamespace(cuda=SimpleNamespace(nvtx=nvtx))
    monkeypatch.setattr("fastdist.devices.cuda.nvtx.cupy", lambda: cupy)
    return nvtx

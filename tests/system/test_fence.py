"""Memory is shared by two writing processes only if the CPU keeps the order of writes."""

from __future__ import annotations

import platform

import pytest

from fastdist.distributed.arena.layout import why_not_viable as why_no_arena
from fastdist.distributed.pipe.ring.meeting import why_not_viable as why_no_rings
from fastdist.system.fence import why_no_fence


@pytest.mark.parametrize("machine", ["aarch64", "arm64", "ppc64le", "riscv64", "s390x", ""])
def test_rings_and_arenas_are_refused_where_memory_may_be_reordered(
    monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    reason = why_no_fence()
    assert reason is not None and (machine or "unknown") in reason and "x86" in reason
    assert why_no_rings() == why_no_arena() == reason


@pytest.mark.parametrize("machine", ["x86_64", "AMD64", "i686"])
def test_x86_has_a_fence_under_all_of_its_names(
    monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert why_no_fence() is None

"""`accelerator`: queries work on every machine; calls that need a device raise if there is none."""

from __future__ import annotations

import pytest

import fastdist as fd


def test_questions_agree_with_cuda() -> None:
    assert fd.accelerator.is_available() is fd.cuda.is_available()
    assert fd.accelerator.device_count() == fd.cuda.device_count()
    there = fd.accelerator.current_accelerator()
    assert there == (fd.device("cuda") if fd.cuda.is_available() else None)
    with fd.accelerator.device_index(None):
        pass


@pytest.mark.parametrize(
    "name",
    ["current_device_index", "synchronize", "empty_cache", "memory_allocated", "memory_reserved"],
)
def test_work_without_one_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fd.accelerator, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is avail"):
        getattr(fd.accelerator, name)()

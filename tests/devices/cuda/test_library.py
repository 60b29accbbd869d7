"""CuPy's compile cache is in a folder that nobody else can write to, or only in memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fastdist.devices.cuda import library


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(library, "import_module", lambda name: name)
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "0")
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def test_a_folder_of_ones_own_is_used(folder: Path) -> None:
    assert library.cupy.__wrapped__() == "cupy"
    assert os.environ["CUPY_CACHE_IN_MEMORY"] == "0"
    assert folder.stat().st_mode & 0o077 == 0


def test_a_folder_that_others_could_fill_is_not_and_the_log_says_so(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    assert library.cupy.__wrapped__() == "cupy"
    assert os.environ["CUPY_CACHE_IN_MEMORY"] == "1"
    (told,) = caplog.records
    assert "kernels', mode 0777, lets others write into it; set CUPY_CACHE_DIR" in told.getMessage()


def test_without_a_name_it_is_the_one_in_the_home(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUPY_CACHE_DIR")
    monkeypatch.setenv("HOME", str(folder))
    library.cupy.__wrapped__()
    assert (folder / ".cupy" / "kernel_cache").is_dir()


def test_a_folder_that_cannot_be_made_is_left_to_cupy(folder: Path) -> None:
    folder.touch()
    library.cupy.__wrapped__()
    assert os.environ["CUPY_CACHE_IN_MEMORY"] == "0"


def test_who_keeps_all_in_memory_needs_no_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "1")
    library.cupy.__wrapped__()
    assert not folder.exists()

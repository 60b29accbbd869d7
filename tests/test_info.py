"""`fastdist info`: each query prints an answer, and a failing query does not stop the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fastdist import info
from fastdist.installation import constraint
from fastdist.installation.environment import Environment
from fastdist.system import blas


def test_collect_answers_every_question_on_this_machine() -> None:
    rows = {(row.section, row.name): row.value for row in info.collect()}
    assert not [name for section, name in rows if section == "not known"]
    expected = [("versions", "numpy"), ("cpu", "features"), ("numba", "threading layer")]
    assert all(rows[key] for key in expected)
    assert ("gpu", "cupy") in rows
    assert ("kernel cache", "folder") in rows


def test_a_question_that_fails_is_a_line() -> None:
    def _gearbox() -> list[info.Row]:
        raise OSError("it is stuck")

    rows = info.collect((_gearbox, info._cpu))
    assert rows[0] == info.Row("not known", "gearbox", "OSError: it is stuck", is_missing=True)
    assert rows[1].section == "cpu"


def test_the_core_is_shown_with_how_it_was_chosen() -> None:
    rows = {row.name: row.value for row in info._blas()}
    if blas.openblas_core() is None:
        assert "not OpenBLAS" in rows["library"]
    else:
        assert rows["core"].startswith(f"{blas.openblas_core()} (")


def test_the_cache_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(info, "cache_directory", lambda: tmp_path)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "kernel").write_bytes(b"x" * 1_500_000)
    assert ("kernel cache", "size", "1.5 MB in 1 files", False) in info._cache()


@pytest.mark.parametrize("looks", [0, 1])
def test_a_cache_to_which_others_write_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    (tmp_path / "kernel").write_bytes(b"x" * 100_000)
    (tmp_path / "kernel.tmp").touch()
    left, stat = [None] * looks, os.stat

    def look_and_rename(path: Any, **how: Any) -> os.stat_result:
        is_temporary = str(path).endswith(".tmp")
        if is_temporary and not left:
            raise FileNotFoundError(path)
        found = stat(path, **how)
        if is_temporary:
            left.pop()
        return found

    monkeypatch.setattr(info, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(os, "stat", look_and_rename)
    assert info._cache()[1].value == f"0.1 MB in {1 + looks} files"


def test_a_cache_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(info, "cache_directory", lambda: None)
    (row,) = info._cache()
    assert row.is_missing
    assert "set FASTDIST_CACHE_DIR" in row.value


def test_a_cache_that_others_could_fill_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(info, "cache_directory", lambda: None)
    monkeypatch.setattr(info, "why_no_cache", lambda: "others could put their code there")
    (row,) = info._cache()
    assert row.is_missing and row.value == "others could put their code there"


class _Driver:
    """A stand-in for NVIDIA's library on a machine with one GPU."""

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 1
        return 0

    def cuDeviceGetName(self, name: Any, size: int, index: int) -> int:
        name.value = b"NVIDIA H200"
        return 0

    def cuDeviceTotalMem_v2(self, memory: Any, index: int) -> int:
        memory._obj.value = 139 << 30
        return 0


def test_each_gpu_is_named() -> None:
    assert info._gpus(_Driver()) == [info.Row("gpu", "cuda:0", "NVIDIA H200, 139 GiB")]


def test_what_this_machine_cannot_offer_comes_with_its_reason() -> None:
    rows = {row.name: row for row in info._transports()}
    assert rows["uv"].value == "yes"
    assert all(row.value for row in rows.values())
    assert rows.keys().isdisjoint({"ibv", "cma"})
    assert rows["not offered"].value.startswith("ibv, cma, mpt_uv, cuda_xth, cuda_gdr: ")
    assert not rows["not offered"].is_missing


def test_the_text_marks_what_is_missing() -> None:
    rows = [info.Row("gpu", "driver", "none", is_missing=True), info.Row("cpu", "model", "X")]
    assert info.as_text(rows) == "gpu:\n - driver  none\ncpu:\n   model   X"


def test_an_installed_torch_has_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Environment(str(tmp_path), str(tmp_path))
    monkeypatch.setattr(info, "this_environment", lambda: place)
    assert info._installed_torch() == []
    Path(constraint.file_of(place)).write_text("")
    monkeypatch.setattr(info, "note", lambda environment: "it was replaced")
    assert info._installed_torch() == [info.Row("versions", "torch", "it was replaced", True)]
    monkeypatch.setattr(info, "note", lambda environment: None)
    (row,) = info._installed_torch()
    assert not row.is_missing and row.value.startswith("fastdist, for all programs of")

"""The sanitizer runs a sample of the op table; without a sanitizer the command says so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.gpus import sanitize
from bench.gpus.first_contact import samples
from bench.harness import Failed
from fastdist.devices.cuda import CudaBackend
from tests.fibre_shim.installed import cuda_on_fibres


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


def stand_in(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program named like the sanitizer first on the PATH."""
    program = folder / "compute-sanitizer"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_without_it_the_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sanitize.run(2) == []
    assert "compute-sanitizer is not installed" in capsys.readouterr().out


def test_without_a_gpu_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(tmp_path, "exit 1", monkeypatch)
    monkeypatch.setattr(sanitize, "what_is_missing", lambda: "cuda: no driver")
    assert sanitize.run(2) == []
    assert "nothing to look at: cuda: no driver" in capsys.readouterr().out


def test_each_tool_runs_the_sample_and_what_it_finds_fails(
    cuda: CudaBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told"
    stand_in(tmp_path, f'echo "$@" >> {told}; [ "$2" != racecheck ] || exit 77', monkeypatch)
    with pytest.raises(Failed, match=r"^racecheck found errors$"):
        sanitize.run(2)
    lines = told.read_text().splitlines()
    assert [line.split()[1] for line in lines] == [*sanitize.TOOLS]
    assert all(line.endswith("-m bench.gpus.sanitize") for line in lines)


def test_a_crash_is_no_success(
    cuda: CudaBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, "exit 3", monkeypatch)
    assert sanitize.look(str(tmp_path / "compute-sanitizer"), "memcheck") == (
        "ended with exit code 3"
    )


@pytest.mark.one_in(3)
def test_the_sample_is_a_part_of_the_table_with_ops_of_all_kinds() -> None:
    known = list(samples())
    names = [one.name for one in sanitize.chosen(known)]
    assert len(known) / 20 < len(names) < 120 and len({name[:3] for name in names}) > 30

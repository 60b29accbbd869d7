"""`fastdist run --gpus-per-worker` assigns GPUs to workers on all kinds of machines."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from fastdist.launch import gpus
from fastdist.launch import main as launch_main
from fastdist.launch.gpus import gpus_of_workers, visible_gpus
from fastdist.launch.options import parse_options


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that sets the number of GPUs of the driver; None means no driver."""

    def show(number: int | None) -> None:
        monkeypatch.setattr(gpus, "count_gpus", lambda: number)

    return show


def test_each_worker_gets_its_own_of_the_machine_s_gpus(count: Any) -> None:
    count(5)
    assert gpus_of_workers(2, 2, {}) == ("0,1", "2,3")
    assert gpus_of_workers(1, 5, {}) == ("0", "1", "2", "3", "4")


@pytest.mark.parametrize(
    ("listed", "cut"),
    [
        ("6,2,4,0", ("6,2", "4,0")),
        (
            "GPU-8932f937-d72c,GPU-1, MIG-GPU-3/1/0 ,7",
            ("GPU-8932f937-d72c,GPU-1", "MIG-GPU-3/1/0,7"),
        ),
    ],
)
def test_a_list_that_is_given_is_cut_up_in_its_order(
    count: Any, listed: str, cut: tuple[str, ...]
) -> None:
    count(None)
    assert gpus_of_workers(2, 2, {"CUDA_VISIBLE_DEVICES": listed}) == cut


def test_a_list_ends_where_cuda_ends_it(count: Any) -> None:
    count(None)
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "1,-1,0"}) == ["1"]
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}) == []
    count(2)  # the driver has GPUs 0 and 1, so a list ends before 9
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "1,0,9,3"}) == ["1", "0"]


def test_a_gpu_that_is_named_twice_is_an_error(count: Any) -> None:
    count(0)
    with pytest.raises(ValueError, match="CUDA_VISIBLE_DEVICES is '1,1', which names 1 twice"):
        visible_gpus({"CUDA_VISIBLE_DEVICES": "1,1"})


@pytest.mark.parametrize(
    ("number", "environment", "told"),
    [
        (3, {}, "needs 4 GPUs, and this machine shows 3: start fewer workers"),
        (None, {}, "this machine shows 0, without an NVIDIA driver"),
        (8, {"CUDA_VISIBLE_DEVICES": "5"}, "this machine shows 1, CUDA_VISIBLE_DEVICES being '5'"),
    ],
)
def test_too_few_gpus_are_an_error_that_says_what_is_there(
    count: Any, number: int | None, environment: dict[str, str], told: str
) -> None:
    count(number)
    with pytest.raises(ValueError, match="--gpus-per-worker 2 for 2 workers needs") as error:
        gpus_of_workers(2, 2, environment)
    assert told in str(error.value)


def test_a_machine_without_a_driver_is_seen_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    assert gpus.count_gpus() is None


def test_a_worker_per_gpu_is_started_and_none_where_there_is_none(
    count: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    count(4)
    options = parse_options(["--nproc-per-node=gpu", "--gpus-per-worker=1", __file__])
    assert (options.workers_per_node, options.gpus) == (4, ("0", "1", "2", "3"))
    count(None)
    with pytest.raises(SystemExit):
        parse_options(["-n", "gpu", __file__])
    assert "a worker per GPU, and this machine shows none" in capsys.readouterr().err


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize(
    ("flags", "seen"),
    [
        (["--gpus-per-worker=2"], ["GPU-a,GPU-b", "GPU-c,GPU-d"]),
        ([], ["GPU-a,GPU-b,GPU-c,GPU-d,GPU-e"] * 2),
    ],
)
def test_workers_are_told_their_gpus_and_all_of_them_without_the_option(
    count: Any,
    flags: list[str],
    seen: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    count(None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b,GPU-c,GPU-d,GPU-e")
    script = tmp_path / "sees.py"
    script.write_text('import os; print(os.environ["CUDA_VISIBLE_DEVICES"])')
    assert launch_main.main(["-n", "2", *flags, str(script)]) == 0
    told = [f"[rank {rank}] {gpus}" for rank, gpus in enumerate(seen)]
    assert sorted(capfd.readouterr().out.splitlines()) == told

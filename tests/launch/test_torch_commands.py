"""PyTorch's names of the command: `python -m torch.distributed.run`, and `.launch`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fastdist
from fastdist import as_torch
from fastdist.distributed import launch, run

ROOT = str(Path(fastdist.__file__).parents[1])

_SHOWS = """
import os, sys, torch
print(os.environ["LOCAL_RANK"], sys.argv[1:], torch.nn.__name__)
"""


@pytest.mark.one_in(7)
def test_it_starts_workers_in_which_torch_is_fastdist(tmp_path: Path) -> None:
    """Start the command with options that programs pass to torchrun."""
    script = tmp_path / "worker.py"
    script.write_text(_SHOWS)
    line = ["as-torch", "-m", "torch.distributed.run", "--master_port=0"]
    line += ["--rdzv_backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--rdzv-id=7"]
    line += ["--rdzv-conf=timeout=30", "--role=trainer", "--monitor-interval=0.1"]
    done = subprocess.run(
        [sys.executable, "-m", "fastdist", *line, str(script), "--lr", "1"],
        env={**os.environ, "PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "[rank 0] 0 ['--lr', '1'] fastdist.nn\n", done.stderr
    assert done.returncode == 0


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("flags", "arguments"),
    [([], ["--local-rank=0", "--lr", "1"]), (["--use_env"], ["--lr", "1"])],
)
def test_the_older_command_tells_workers_their_rank_unless_they_read_it(
    flags: list[str],
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([as_torch.FOLDER, ROOT]))
    script = tmp_path / "worker.py"
    script.write_text(_SHOWS)
    launch.main([*flags, "--master_port=0", str(script), "--lr", "1"])
    assert capfd.readouterr().out == f"[rank 0] 0 {arguments} fastdist.nn\n"


@pytest.mark.parametrize("main", [run.main, launch.main])
def test_a_mistake_is_an_exit_with_its_status(
    main: object, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as told:
        main(["-n", "two", __file__])  # type: ignore[operator]
    assert told.value.code == 2
    assert "--nproc-per-node must be a whole number from 1 up" in capsys.readouterr().err


def test_a_job_that_fails_is_an_exit_with_its_status(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text("import sys; sys.exit(7)")
    with pytest.raises(SystemExit) as told:
        run.main([str(script)])
    assert told.value.code == 7

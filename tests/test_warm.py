"""`fastdist info --warm` compiles common kernels, for this machine or for a container image."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fastdist import cli, warm
from tests.kernels.cpu.processes import cache_with_runner, run_forked

NAMES = [
    *warm._FORWARD_AND_BACKWARD,
    *warm._FORWARD,
    *(f"a step of {name}" for name in warm._OPTIMIZERS),
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", NAMES)
def test_each_step_runs(name: str) -> None:
    dict(warm._steps())[name]()


FEW = """
import sys
from fastdist import cli, warm
warm._FORWARD_AND_BACKWARD, warm._FORWARD, warm._OPTIMIZERS = [], ["x.detach() + y"], ()
warm._SMALL_ROWS = warm._SMALL_ROWS[:{rows}]
sys.exit(cli.main(["info", "--warm"{arguments}]))
"""
USE = """
import fastdist as torch
from fastdist.kernels.cpu.jit import compiler, kernel_cache
loops, first, last = [], compiler.Loop.__init__, kernel_cache.FoundLoop.__init__
def noted(init):
    def call(loop, *args):
        init(loop, *args)
        loops.append(loop)
    return call
compiler.Loop.__init__, kernel_cache.FoundLoop.__init__ = noted(first), noted(last)
x = torch.ones(300, 300)
x + x
print([loop.was_cached for loop in loops])
"""


@pytest.mark.one_in(3)
def test_next_process_finds_what_was_compiled(tmp_path: Path) -> None:
    environment = {"FASTDIST_CACHE_DIR": str(tmp_path)}
    told = run_forked(FEW.format(arguments="", rows=1), **environment)
    assert told.startswith("compiled ")
    assert told.endswith(f"0 were there: {tmp_path}")
    assert run_forked(USE, **environment) == "[True]"
    told = run_forked(FEW.format(arguments="", rows=1), **environment)
    assert told.startswith("compiled 0 kernels")


@pytest.mark.one_in(3)
def test_it_compiles_where_programs_do_not_wait(tmp_path: Path) -> None:
    cache = str(cache_with_runner(tmp_path))
    told = run_forked(
        FEW.format(arguments="", rows=0), FASTDIST_CACHE_DIR=cache, FASTDIST_START="numpy"
    )
    assert told.startswith("compiled ") and not told.startswith("compiled 0")


@pytest.mark.one_in(3)
def test_folder_that_was_made_for_an_image_is_readable_by_all_and_used(tmp_path: Path) -> None:
    folder, own = tmp_path / "shipped", tmp_path / "own"
    folder.mkdir(mode=0o700)
    arguments = f', "--into", {str(cache_with_runner(folder))!r}'
    told = run_forked(FEW.format(arguments=arguments, rows=0), FASTDIST_CACHE_DIR=str(own))
    assert told.startswith("compiled ") and not told.startswith("compiled 0")
    assert told.endswith(f" were there: {folder}")
    assert not own.exists()
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*.object")} == {0o644}
    assert folder.stat().st_mode & 0o777 == (folder / "objects").stat().st_mode & 0o777 == 0o755
    shipped = {"FASTDIST_SHIPPED_CACHE_DIR": str(folder), "FASTDIST_CACHE_DIR": str(own)}
    assert run_forked(USE, **shipped) == "[True]"
    assert list((own / "objects").iterdir()) == []


class Screen(io.StringIO):
    """A terminal that records the text that is drawn."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_bar_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FASTDIST_TERMINAL_WIDTH", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(warm, "_FORWARD_AND_BACKWARD", ["x + y"])
    monkeypatch.setattr(warm, "_FORWARD", ["i + i"])
    monkeypatch.setattr(warm, "_SMALL_ROWS", ())
    monkeypatch.setattr(warm, "_OPTIMIZERS", ())
    screen = Screen()
    warm.warm(screen)
    drawn = screen.getvalue().split("\r")
    assert [line.split()[0] for line in drawn[:2]] == ["0/2", "1/2"]
    assert [line.split("  ")[-1].strip() for line in drawn[:2]] == ["x + y", "i + i"]


def test_pipe_gets_a_line_at_the_start_and_after_each_ten_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("FASTDIST_TERMINAL_WIDTH", raising=False)
    monkeypatch.setattr(warm, "_FORWARD_AND_BACKWARD", ())
    monkeypatch.setattr(warm, "_FORWARD", ["x.shape"] * 23)
    monkeypatch.setattr(warm, "_SMALL_ROWS", ())
    monkeypatch.setattr(warm, "_OPTIMIZERS", ())
    pipe = io.StringIO()
    warm.warm(pipe)
    lines = pipe.getvalue().splitlines()
    assert [line.split(" after ")[0] for line in lines] == [
        "0/23 calls",
        "10/23 calls",
        "20/23 calls",
    ]


def test_pipe_gets_a_line_after_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 0.5, 1.5, 3.0, 4.0, 5.5])
    monkeypatch.setattr(warm, "_steps", lambda: [("x", lambda: None)] * 4)
    monkeypatch.setattr("fastdist.warm.time.perf_counter", lambda: next(times))
    pipe = io.StringIO()
    warm.warm(pipe)
    assert pipe.getvalue().splitlines() == ["0/4 calls after 0.5 s", "2/4 calls after 3.0 s"]


@pytest.mark.parametrize("arguments", [["--into"], ["--into", "a", "b"], ["--to", "a"]])
def test_other_arguments_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["info", "--warm", *arguments]) == 2
    assert "takes --into FOLDER or nothing" in capsys.readouterr().err


def test_folder_that_others_could_write_to_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o777)
    assert cli.main(["info", "--warm", "--into", str(tmp_path)]) == 1
    assert "lets others write into it" in capsys.readouterr().err


def test_process_that_keeps_kernels_elsewhere_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTDIST_CACHE_DIR", "set back after the test")
    monkeypatch.setenv("FASTDIST_SHIPPED_CACHE_DIR", "set back after the test")
    monkeypatch.setattr(warm, "cache_directory", lambda _: Path("elsewhere"))
    with pytest.raises(RuntimeError, match="start another one"):
        warm.warm_into(str(tmp_path))

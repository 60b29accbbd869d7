"""The command `fastdist`: its help, its usage errors, and its subcommands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

import fastdist
from fastdist import cli
from fastdist.installation import install
from fastdist.installation.environment import InstallError
from fastdist.launch import main as launch_main


def test_no_command_prints_the_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "usage: fastdist COMMAND" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["-h", "--help", "help"])
def test_help_names_each_command(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([flag]) == 0
    out = capsys.readouterr().out
    assert all(
        f"\n  {name} " in out for name in ("run", "manifest", "as-torch", "demo", "info", "version")
    )


def test_an_unknown_command_is_told_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trian"]) == 2
    known = "run, top, manifest, as-torch, demo, info, version"
    expected = f"fastdist: unknown command 'trian'; known: {known}\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["rnu"], "did you mean run?"),
        (["--verison"], "did you mean --version?"),
        (["train.py", "--lr", "1"], "did you mean `fastdist run train.py --lr 1`?"),
        (["-n", "3", "train"], "did you mean `fastdist run -n 3 train`?"),
    ],
)
def test_a_near_miss_is_told_what_was_meant(
    arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err.endswith(f"; {hint}\n")


@pytest.mark.parametrize("name", ["info", "version"])
@pytest.mark.parametrize("order", [("help", "{}"), ("{}", "--help"), ("{}", "-h")])
def test_each_command_has_a_help(
    name: str, order: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([word.format(name) for word in order]) == 0
    assert capsys.readouterr().out.startswith(f"usage: fastdist {name}\n")


@pytest.mark.parametrize("name", ["run", "demo"])
def test_help_of_a_command_is_its_own(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as told:
        cli.main(["help", name])
    assert told.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: fastdist {name} [")


@pytest.mark.parametrize("name", ["version", "-V", "--version"])
def test_version_is_the_packages(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name]) == 0
    assert capsys.readouterr().out == f"fastdist {fastdist.__version__}\n"


def test_demo_runs_the_digits_on_three_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[str], str]] = []

    def run(arguments: list[str], prog: str) -> int:
        seen.append((arguments, prog))
        return 5

    monkeypatch.setattr(launch_main, "main", run)
    assert cli.main(["demo", "--epochs", "1"]) == 5
    assert cli.main(["demo", "digits", "--epochs", "1"]) == 5
    expected = ["-n", "3", "-m", "fastdist.examples.digits", "--epochs", "1"]
    assert seen == [(expected, "fastdist demo")] * 2


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [(["--help"], 0, "--epochs"), (["--epochs", "0"], 2, "must be at least 1")],
)
def test_demo_reads_its_options_before_any_worker_starts(
    arguments: list[str],
    status: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(launch_main, "launch", lambda *_: pytest.fail("workers were started"))
    with pytest.raises(SystemExit) as told:
        cli.main(["demo", *arguments])
    assert told.value.code == status
    told_text = "".join(capfd.readouterr())
    assert text in told_text and "[rank" not in told_text


@pytest.mark.parametrize(("name", "taken"), [("version", "no arguments"), ("info", "only --warm")])
def test_arguments_that_a_command_does_not_take_are_refused(
    name: str, taken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([name, "--all"]) == 2
    assert f"fastdist {name}: takes {taken}, got '--all'" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--into", "folder"], ["--into"], ["--into=folder"]])
def test_info_says_that_a_folder_is_for_warming(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["info", *arguments]) == 2
    assert capsys.readouterr().err.startswith("fastdist info: --into needs --warm: ")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("command", ["--help", "info", "version"])
def test_a_reader_that_leaves_hears_no_traceback(command: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "fastdist", command],
        stdout=write_end,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(write_end)
    assert done.stderr == b""
    assert done.returncode == 128 + signal.SIGPIPE


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module", ["fastdist", "fastdist.cli"])
def test_the_command_line_works_as_a_process(module: str) -> None:
    command = [sys.executable, "-m", module, "version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"fastdist {fastdist.__version__}\n"


def test_a_missing_program_of_as_torch_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["as-torch", "no_such.py", "--lr", "1"]) == 2
    expected = "there is no script 'no_such.py' here; for a module say -m no_such.py\n"
    assert capsys.readouterr().err == f"fastdist as-torch: {expected}"


@pytest.mark.parametrize("option", ["--install", "--uninstall"])
def test_an_option_for_the_environment_is_alone(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["as-torch", option, "now"]) == 2
    expected = f"fastdist as-torch {option}: does not take arguments, got 'now'\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("error", [InstallError("not here"), OSError("not here")])
@pytest.mark.parametrize("name", ["install", "uninstall"])
def test_an_environment_that_cannot_be_changed_is_an_error(
    name: str,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(*_: object) -> str:
        raise error

    monkeypatch.setattr(install, name, refuse)
    assert cli.main(["as-torch", f"--{name}"]) == 1
    assert capsys.readouterr() == ("", f"fastdist as-torch --{name}: not here\n")
    monkeypatch.setattr(install, name, lambda *_: "done")
    assert cli.main(["as-torch", f"--{name}"]) == 0
    assert capsys.readouterr() == ("done\n", "")

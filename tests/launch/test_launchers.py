"""For a test, a forked launcher behaves like a started one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.distributed import templates

TEXT = """
    import os
    launcher = os.getppid()
    print("group", os.getpgid(launcher) == launcher)
    print("streams", *[os.readlink(f"/proc/{launcher}/fd/{number}") for number in range(3)])
    print("folder", os.readlink(f"/proc/{launcher}/cwd"))
    print("variable", os.environ.get("FASTDIST_OF_THIS_TEST"), os.environ["COLUMNS"])
    parent = open(f"/proc/{launcher}/stat").read().rpartition(")")[2].split()[1]
    print("parent", parent)
    tasks = [task for task in os.listdir("/proc/self/task") if task != str(os.getpid())]
    masks = [open(f"/proc/self/task/{task}/status").read() for task in tasks]
    blocked = [int(mask.partition("SigBlk:")[2].split()[0], 16) >> 9 & 1 for mask in masks]
    print("threads", "block SIGUSR1" if all(blocked) else "take SIGUSR1")
    print("own", os.getpgid(0) == os.getpid(), os.readlink("/proc/self/fd/0"), __name__, end="!")
"""


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize(
    ("is_child", "starts_workers"), [(False, False), (False, True), (True, True)]
)
def test_it_has_streams_a_folder_an_environment_and_a_group_of_its_own(
    is_child: bool,
    starts_workers: bool,
    start_run: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    environment = {"FASTDIST_OF_THIS_TEST": "1"}
    run = start_run(
        TEXT,
        environment=environment,
        columns=91,
        is_child=is_child,
        starts_workers=starts_workers,
    )
    assert run.end() == 0, run.out + run.err
    lines = [line.partition("] ")[2].split(" ", 1) for line in run.out.decode().splitlines()]
    found = {words[0]: words[1].strip() for words in lines}
    assert found["group"] == "True" and found["folder"] == str(tmp_path)
    # The program blocks this signal in order to wait for it.
    assert found["threads"] == "block SIGUSR1"
    nothing, out, err = found["streams"].split()
    assert (nothing, out[:9], err[:5]) == ("/dev/null", "/dev/pts/", "pipe:")
    assert found["variable"].split()[0] == "1"
    assert found["own"].startswith("True /dev/null __main__!")
    parents = {os.getpid()} if is_child else set(templates.templates())
    assert int(found["parent"]) in parents


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize("one_in", [1, 1 << 40])
def test_a_mistake_is_told_by_the_name_of_the_command_however_it_ends(
    one_in: int, run_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "ENDS_WHOLE_ONE_IN", one_in)
    runs = [run_command("-n", "0", "x.py", is_child=is_child) for is_child in (False, True)]
    assert [run.end() for run in runs] == [2, 2]
    assert runs[0].err == runs[1].err and runs[0].err.startswith(b"python -m fastdist.run: ")

"""The recorder lists all names that a package needs in one run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = """
import torch
from torch.no_such_room.deeper import Thing, wrap
from torch.nn import no_such_layer

class Mine(Thing):
    def __init__(self):
        self.value = 3

@wrap
def double(x):
    return 2 * x

assert double(4) == 8
assert Mine().value == 3
assert not isinstance(3, Thing)
assert not hasattr(torch, "no_such_op")
assert getattr(torch, "no_such_dtype", None) is None
KIND = torch.NoSuchClass[int].part
assert [*torch.no_such_list] == []
assert torch.ones(2).sum() == 2

def later():
    return torch.no_such_function(3)
"""


def record(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.packages.record", *arguments],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_one_import_lists_all_missing_names(tmp_path: Path) -> None:
    (tmp_path / "wanting.py").write_text(PACKAGE)
    done = record(tmp_path, "wanting")
    assert done.returncode == 0, done.stderr
    found = [line.split()[:2] for line in done.stdout.splitlines()[:-1]]
    assert found == [
        ["use", "torch.no_such_room"],
        ["use", "torch.no_such_room.deeper"],
        ["use", "torch.no_such_room.deeper.Thing"],
        ["use", "torch.no_such_room.deeper.wrap"],
        ["use", "torch.nn.no_such_layer"],
        ["probe", "torch.no_such_op"],
        ["probe", "torch.no_such_dtype"],
        ["use", "torch.NoSuchClass"],
        ["use", "torch.no_such_list"],
    ]
    assert "wanting.py:3" in done.stdout.splitlines()[0]


def test_a_program_that_fails_still_lists_what_it_asked_for(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys, torch\ntorch.no_such_op()\nraise ValueError(sys.argv[1])\n")
    done = record(tmp_path, "--script", str(program), "an argument")
    assert done.returncode == 1
    assert "ValueError: an argument" in done.stderr
    assert done.stdout.split()[:2] == ["use", "torch.no_such_op"]

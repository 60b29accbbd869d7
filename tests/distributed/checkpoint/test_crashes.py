"""A process that dies at any step of a save loses no earlier checkpoint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import fastdist

# A save changes the disk in steps. For each step, a child dies right before it, as by SIGKILL.
_PROGRAM = """
import os
import fastdist
from fastdist.distributed import checkpoint as dcp

CHANGES = ("mkdir", "fsync", "link", "replace", "unlink", "rmdir")

def save(number, keep=2):
    state = {"x": fastdist.full((50,), float(number)), "step": number}
    dcp.save(state, checkpoint_id=f"checkpoints/{number}", keep=keep)

def newest():
    state = {"x": fastdist.zeros(50), "step": 0}
    dcp.load(state, checkpoint_id=dcp.latest("checkpoints", verify=True))
    assert set(state["x"].tolist()) == {float(state["step"])}
    return state["step"]

def end_before(step):
    left = [step]
    def counted(change):
        def call(*args, **options):
            left[0] -= 1
            if not left[0]:
                os._exit(9)
            return change(*args, **options)
        return call
    for name in CHANGES:
        setattr(os, name, counted(getattr(os, name)))

number, step, lost = 2, 0, []
save(1), save(2)
while True:
    step += 1
    child = os.fork()
    if not child:
        end_before(step)
        save(number + 1)
        os._exit(0)
    crashed = os.waitpid(child, 0)[1] != 0
    found = newest()
    lost += [step] if found not in (number, number + 1) else []
    if not crashed:
        break
    save(number + 2)
    number += 2
    assert newest() == number
    # An empty folder may stay: it could be somebody else's, for something else.
    files = {name: os.listdir(f"checkpoints/{name}") for name in os.listdir("checkpoints")}
    assert sorted(len(found) for found in files.values() if found) == [2, 2], (step, files)
print(step - 1, lost)
"""


def test_a_save_that_ends_at_any_step_leaves_a_whole_checkpoint_and_no_files_for_ever(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(fastdist.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    crashes, lost = done.stdout.split(maxsplit=1)
    assert int(crashes) > 10 and lost.strip() == "[]", done.stdout

"""A preempted job saves once, leaves, and later continues as if it had not been interrupted."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastdist as torch
from fastdist.distributed import PREEMPTED_EXIT_STATUS

_TRAIN = """
import os, signal, sys, time
import fastdist as torch
import fastdist.distributed as dist
from fastdist.nn.parallel import DistributedDataParallel

folder, sends, status = {folder!r}, {sends}, {status}
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
ddp = DistributedDataParallel(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
step, path = 0, os.path.join(folder, "checkpoint")
if os.path.exists(path):
    state = torch.load(path)
    model.load_state_dict(state["model"]); optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
while step < 60 and not dist.preempted():
    if step >= sends[0]:
        if step == sends[0] and rank == sends[1]:
            os.kill(os.getpid() if sends[2] else os.getppid(), signal.SIGTERM)
        time.sleep(0.02)
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(100 * step + rank))
    optimizer.zero_grad()
    ddp(x).square().mean().backward()
    optimizer.step()
    step += 1
print("left at", step)
if rank == 0:
    state = {{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}}
    torch.save(state, path)
    open(os.path.join(folder, "saves"), "a").write(f"{{step}}\\n")
dist.destroy_process_group()
sys.exit(status if step < 60 else 0)
"""


def _uninterrupted() -> Any:
    """Train as both workers do, in one process."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(60):
        optimizer.zero_grad()
        for rank in range(2):
            generator = torch.Generator().manual_seed(100 * step + rank)
            x = torch.randn(3, 4, generator=generator)
            (model(x).square().mean() / 2).backward()
        optimizer.step()
    return model.state_dict()


@pytest.mark.one_in(7)
def test_a_preempted_job_saves_once_and_its_next_runs_end_with_the_same_weights(
    start_run: Callable[..., Any], tmp_path: Path
) -> None:
    def run(sends: tuple[int, int, bool], status: int) -> Any:
        text = _TRAIN.format(folder=str(tmp_path), sends=sends, status=status)
        return start_run(text, "-n2", "--max-restarts=2")

    # First, a worker requests preemption, and the launcher asks the scheduler for a later start.
    first = run((5, 1, True), PREEMPTED_EXIT_STATUS)
    assert first.end() == PREEMPTED_EXIT_STATUS
    assert b"has saved its state and asks for a later start by exit status 75" in first.err
    assert b"later, " not in first.err and b"started again" not in first.err
    # Then the launcher is signalled, and all workers end without an error.
    second = run((30, 0, False), 0)
    assert second.end() == 0
    assert b"stopped on request (SIGTERM): all workers have exited with status 0" in second.err
    third = run((60, 0, False), 0)
    assert third.end() == 0
    steps = []
    for each in (first, second, third):
        left = {line.split(b"left at ")[1] for line in each.out.splitlines()}
        assert len(each.out.splitlines()) == 2 and len(left) == 1
        steps.append(int(left.pop()))
    assert 5 <= steps[0] < 30 <= steps[1] < steps[2] == 60
    assert (tmp_path / "saves").read_text() == "".join(f"{step}\n" for step in steps)
    saved = torch.load(tmp_path / "checkpoint")["model"]
    expected = _uninterrupted()
    assert all(torch.equal(saved[name], expected[name]) for name in expected)


@pytest.mark.one_in(7)
def test_workers_that_ask_for_a_later_start_after_sigterm_give_the_job_their_status(
    start_run: Callable[..., Any],
) -> None:
    text = """
    import os, signal, sys
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75 * (os.environ["RANK"] == "1")))
    print("ready", os.environ["RANK"])
    while True:
        signal.pause()
    """
    job = start_run(text, "-n2")
    job.wait_for("ready 0"), job.wait_for("ready 1")
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == PREEMPTED_EXIT_STATUS
    assert b"(SIGTERM): workers have saved their state and ask for a later start" in job.err

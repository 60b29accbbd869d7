"""`fastdist run --restart=worker`: only the lost worker restarts, while the others live on."""

from __future__ import annotations

import os
import random
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.launch.test_nodes import job_at
from tests.launch.test_restarts import WORKER

_AGAIN = "python -m fastdist.run: rank {} is started again (restart {} of {})\n"
_STARTS = ((0, 0), (1, 0), (1, 1), (1, 2), (2, 0))
# The text of a worker that waits for a key, and exits with 0 once another worker has set the key.
_WAITS = (
    WORKER
    + """
    from fastdist.distributed.rendezvous import rendezvous
    store = rendezvous("env://").store
    print(f"joined {count} of {rank} is", os.environ["FASTDIST_ALLOW_RESTART"])
    store.wait(["go"], 60)
"""
)


def _joined(run: Any, rank: int, count: int) -> int:
    pid = int(run.number_after(f"start {count} of {rank} is"))
    run.wait_for(f"joined {count} of {rank} is worker\n")
    return pid


@pytest.mark.one_in(7)
def test_only_the_lost_worker_comes_back_and_meets_those_who_live_on(start_run: Any) -> None:
    text = _WAITS.replace(
        "store.wait", 'store.set("go", "") if rank and count == 2 else store.wait'
    )
    run = start_run(text, "-n", "3", "--max-restarts=2", "--restart=worker")
    for rank in (0, 2):
        _joined(run, rank, 0)
    for count in (0, 1):
        os.kill(_joined(run, 1, count), signal.SIGKILL)
    assert run.end() == 0
    started = [line[9:].split(" is ")[0] for line in run.out.decode().splitlines()]
    starts = {f"start {count} of {rank}" for rank, count in _STARTS}
    assert sorted(line for line in started if line.startswith("start")) == sorted(starts)
    err = run.err.decode()
    assert err.count("rank 1 was killed by SIGKILL; if nobody") == 2
    assert _AGAIN.format(1, 1, 2) in err and _AGAIN.format(1, 2, 2) in err


def test_what_a_lost_worker_raised_is_shown_when_it_is_lost(start_run: Any) -> None:
    text = '    if not count: raise ValueError("first")\n    signal.pause()\n'
    run = start_run(WORKER + text, "--max-restarts=1", "--restart", "worker")
    run.number_after("start 1 of 0 is")
    run.wait_for(_AGAIN.format(0, 1, 1), of="err")  # it precedes the start, but may be read later
    assert run.err.decode().splitlines()[-2:] == [
        "ValueError: first",
        _AGAIN.format(0, 1, 1).strip(),
    ]


@pytest.mark.one_in(7)
def test_each_worker_may_come_back_so_often_and_the_next_failure_ends_the_job(
    start_run: Any,
) -> None:
    text = """
    from fastdist.distributed.rendezvous import rendezvous
    with rendezvous("env://").store as store:
        store.wait(["the other is up"], 60) if rank == 0 else store.set("the other is up", "")
    rank or sys.exit(10 + count)
    signal.pause()
    """
    run = start_run(WORKER + text, "-n", "2", "--max-restarts=2", "--restart=worker")
    other = run.number_after("start 0 of 1 is")
    assert run.end() == 12
    assert b"start 2 of 0 is" in run.out and b"start 1 of 1" not in run.out
    lines = run.err.decode().splitlines()
    assert [line.partition("exit status ")[2][:2] for line in lines[::2]] == ["10", "11", "12"]
    assert other


@pytest.mark.one_in(7)
def test_a_worker_that_ended_well_does_not_come_back(start_run: Any) -> None:
    text = """
    from fastdist.distributed.rendezvous import rendezvous
    with rendezvous("env://").store as store:
        if rank == 0 and count == 0:
            os.kill(os.getpid(), signal.SIGSEGV)
        store.wait(["back"], 60) if rank else store.set("back", "")
    """
    run = start_run(WORKER + text, "-n", "2", "--max-restarts=1", "--restart=worker")
    assert run.end() == 0
    assert run.out.count(b"start") == 3


@pytest.mark.one_in(7)
def test_a_worker_that_lies_stopped_while_all_others_have_ended_ends_the_job(
    start_run: Any,
) -> None:
    text = "    if rank and not count: os.kill(os.getpid(), signal.SIGSTOP)\n"
    flags = ("-n", "2", "--max-restarts=1", "--restart=worker")
    run = start_run(WORKER + text, *flags, environment={"FASTDIST_FROZEN_S": "3"})
    # The stopped worker is not restarted: the new worker would find no other worker.
    assert run.end() == 1
    assert b"start 1 of 1 is" not in run.out
    (told,) = run.err.decode().splitlines()
    assert "has been stopped by a signal for 3 s while others have ended" in told


# Rank 0 declares the other worker lost, as a worker does after a silence.
_DECLARES = """
    import json
    from fastdist.distributed import restarts
    from fastdist.distributed.rendezvous import rendezvous
    from fastdist.distributed.rpc.workers.group import root_of
    with rendezvous("env://").store as own:
        store = root_of(own)
        if rank:
            store.set(f"here {count}", str(os.getpid()))
            store.wait(["end"], 60)
        else:
            pid = int(store.get("here 0"))
            line = [1, 2, 1, pid, "worker0", "no sign of life for 10.0 s", False]
            store.append(restarts.DECLARED_LOST, "no line of ours\\n" + json.dumps(line) + "\\n")
            store.wait(["here 1"], 60)
            store.set("end", "")
"""


@pytest.mark.one_in(7)
def test_a_worker_that_another_declares_lost_is_killed_and_comes_back(start_run: Any) -> None:
    flags = ("-n", "2", "--max-restarts=1", "--restart=worker")
    run = start_run(WORKER + _DECLARES, *flags)
    pid = run.number_after("start 0 of 1 is")
    assert run.end() == 0
    told, again = run.err.decode().splitlines(keepends=True)
    assert f"rank 1 (pid {pid}) was declared lost by worker0: no sign of life for 10.0 s" in told
    assert again == _AGAIN.format(1, 1, 1)


@pytest.mark.one_in(7)
def test_a_worker_that_is_declared_lost_and_has_come_back_too_often_ends_the_job(
    start_run: Any,
) -> None:
    text = "    if rank and not count: os.kill(os.getpid(), signal.SIGKILL)\n"
    text += _DECLARES.replace('"here 0"', '"here 1"').replace('["here 1"]', '["here 2"]')
    run = start_run(WORKER + text, "-n", "2", "--max-restarts=1", "--restart=worker")
    assert run.end() == 1
    assert b"was declared lost by worker0" in run.err.splitlines()[-1]


@pytest.mark.slow
def test_the_launcher_of_another_node_starts_its_own_lost_worker_again(
    start_run: Any, port: int
) -> None:
    start = job_at(port, start_run)
    text = _DECLARES.replace("[1, 2, 1,", "[1, 2, 2,").replace("if rank:", "if rank == 2:")
    text = text.replace(
        "        else:", '        elif rank == 1: store.wait(["end"], 60)\n        else:'
    )
    nodes = [
        start(node, WORKER + text, flags=("--max-restarts=1", "--restart=worker"))
        for node in (0, 1)
    ]
    assert [node.end() for node in nodes] == [0, 0]
    assert nodes[0].err == b""
    assert b"rank 2 (pid " in nodes[1].err and b"was declared lost by worker0" in nodes[1].err


@pytest.mark.slow
def test_a_frozen_worker_is_declared_lost_by_those_it_works_with_and_comes_back(
    start_run: Any,
) -> None:
    text = """
    import time
    from fastdist.core.errors import FastdistError
    from fastdist.distributed import rpc
    def count_there():
        return count
    rpc.init_rpc(f"worker{rank}")
    if rank == 1 and count == 0:
        rpc.rpc_sync("worker0", len, ("x",))
        os.kill(os.getpid(), signal.SIGSTOP)
    while rank == 0:
        try:
            if rpc.rpc_sync("worker1", count_there) == 1:
                break
        except FastdistError:
            time.sleep(0.1)
    rpc.shutdown()
    """
    flags = ("-n", "3", "--max-restarts=1", "--restart=worker")
    run = start_run(WORKER + text, *flags, environment={"FASTDIST_FROZEN_S": "3"})
    assert run.end() == 0
    assert b"start 1 of 1 is" in run.out
    assert b"was declared lost by worker0: no sign of life for 3." in run.err


@pytest.mark.one_in(7)
def test_a_ctrl_c_ends_a_job_whose_workers_come_back(start_run: Any) -> None:
    text = """
    if rank == 0:
        sys.exit(1)  # at once, and again and again
    signal.pause()
    """
    run = start_run(WORKER + text, "-n", "2", "--max-restarts=100000", "--restart=worker")
    run.number_after("start 0 of 1 is")
    run.number_after("start 3 of 0 is")
    run.process.send_signal(signal.SIGINT)
    assert run.end(2.0) == 130


@pytest.mark.one_in(7)
def test_a_worker_that_is_lost_while_all_still_meet_takes_its_own_place(start_run: Any) -> None:
    text = """
    from fastdist.distributed import rpc
    from fastdist.distributed.rendezvous import rendezvous
    from fastdist.distributed.store import Store, wait_log
    wait_log._FIRST_S = 0.2
    if count == 1:
        def withdraw(self, *which, take_back=Store.withdraw):
            take_back(self, *which)
            with rendezvous("env://").store as store:
                store.set("the other is back", "")
        Store.withdraw = withdraw
    with rendezvous("env://").store as store:
        if rank == 0:
            store.wait(["the other is back"], 60)
    rpc.init_rpc(f"worker{rank}")
    assert rpc.rpc_sync(f"worker{1 - rank}", pow, (2, 3)) == 8
    rpc.shutdown()
    """
    run = start_run(WORKER + text, "-n", "2", "--max-restarts=1", "--restart=worker")
    pid = run.number_after("start 0 of 1 is")
    run.wait_for("'worker1' (rank 1) waits for rank 0 of 2", of="err")
    os.kill(pid, signal.SIGKILL)
    assert run.end() == 0
    assert b"start 1 of 1 is" in run.out and b"start 1 of 0" not in run.out


@pytest.mark.one_in(7)
def test_a_worker_of_one_node_comes_back_while_those_of_the_other_live_on(
    start_run: Any, port: int
) -> None:
    start = job_at(port, start_run)
    text = _WAITS.replace(
        "store.wait", 'store.set("go", "") if rank == 2 and count else store.wait'
    )
    flags = ("--max-restarts=1", "--restart=worker")
    first, second = [start(node, text, flags=flags) for node in (0, 1)]
    for rank in (0, 1):
        _joined(first, rank, 0)
    os.kill(_joined(second, 2, 0), signal.SIGKILL)
    assert [first.end(), second.end()] == [0, 0]
    assert first.err == b""
    assert _AGAIN.format(2, 1, 1).encode() in second.err


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--restart=worker"], "--restart worker needs --max-restarts: how often each may come"),
        (["--restart=worker", "--max-restarts=00"], "--restart worker needs --max-restarts: how"),
        (["--restart=all", "--max-restarts=1"], "--restart must be group or worker, got 'all'"),
        (["--max-restarts=-1"], "--max-restarts must be a whole number from 0 up, got '-1'"),
    ],
)
def test_a_restart_that_makes_no_sense_is_an_error_before_anything_starts(
    start_run: Any, flags: list[str], message: str
) -> None:
    run = start_run(WORKER, *flags)
    assert run.end() == 2
    assert message.encode() in run.err
    assert run.out == b""


@pytest.mark.one_in(7)
def test_a_worker_is_not_started_again_once_all_others_have_finished(start_run: Any) -> None:
    text = """
    from fastdist.distributed.rendezvous import rendezvous
    from fastdist.distributed.rpc.workers.group import root_of
    from fastdist.distributed.restarts import ENDED
    with rendezvous("env://").store as store:
        rank or root_of(store).wait([f"{ENDED}1", f"{ENDED}2"], 60)
    rank or sys.exit(7)
    """
    run = start_run(WORKER + text, "-n", "3", "--max-restarts=3", "--restart=worker")
    assert run.end() == 7
    assert b"start 1 of" not in run.out
    (told,) = run.err.decode().splitlines()
    assert told.startswith("python -m fastdist.run: rank 0 failed with exit status 7 (pid ")
    assert told.endswith("; it is not started again, for all other workers have finished")


@pytest.mark.one_in(7)
def test_who_came_back_does_not_wait_for_others_that_have_finished(start_run: Any) -> None:
    text = """
    import time
    from fastdist.distributed import rpc
    from fastdist.distributed.rendezvous import rendezvous
    with rendezvous("env://").store as store:
        rpc.init_rpc(f"worker{rank}")
        if rank == 0:
            store.wait(["the other is back"], 60)
            os._exit(0)
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        store.set("the other is back", "")
    began = time.monotonic()
    rpc.shutdown()
    print(f"waited {time.monotonic() - began:.0f}", flush=True)
    """
    run = start_run(WORKER + text, "-n", "2", "--max-restarts=1", "--restart=worker")
    assert run.end(20.0) == 0
    assert run.number_after("waited") < 10
    assert b"shuts down without worker 'worker0' (rank 0)" in run.err


_TRAINS = """
import os, signal
import fastdist as torch
from fastdist import distributed as dist
from fastdist.core.errors import CollectiveError

torch.set_default_dtype(torch.float64)
rank, life = int(os.environ["RANK"]), dist.restart_count()
GIVEN


def make():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)


def loss_of(model, step, rank):
    return model(torch.full((8, 4), rank + 1.0) + step % 7).square().mean()


def train():
    dist.init_process_group()
    model, optimizer = make()
    begun = 0
    if os.path.exists(saved):
        state = torch.load(saved)
        begun = state["step"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    for step in range(begun, steps):
        optimizer.zero_grad()
        loss = loss_of(parallel, step, rank)
        if (rank, life, step) in kills:
            os.kill(os.getpid(), signal.SIGKILL)
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            if rank == 0:
                state = {"step": step + 1, "model": model.state_dict()}
                torch.save({**state, "optimizer": optimizer.state_dict()}, saved + ".new")
                os.replace(saved + ".new", saved)
            dist.barrier()
    return model


while True:
    try:
        model = train()
        break
    except CollectiveError as error:
        print("lost:", error, flush=True)
        dist.destroy_process_group()
alone, optimizer = make()
for step in range(steps):
    optimizer.zero_grad()
    (sum(loss_of(alone, step, one) for one in range(3)) / 3).backward()
    optimizer.step()
torch.testing.assert_close(model.weight, alone.weight, rtol=1e-12, atol=1e-12)
dist.destroy_process_group()
print("trained", flush=True)
"""


def _train(start_run: Any, folder: Path, steps: int, kills: list[tuple[int, int, int]]) -> str:
    """Train and send each kill, a tuple (rank, life, step); return the workers' output."""
    given = f"steps, kills, saved = {steps}, {kills}, {str(folder / 'saved.pt')!r}"
    flags = ("-n", "3", "--max-restarts=60", "--restart=worker")
    run = start_run(_TRAINS.replace("GIVEN", given), *flags)
    assert run.end() == 0, run.err.decode()
    out: str = run.out.decode()
    assert out.count("trained") == 3
    return out


@pytest.mark.one_in(7)
def test_data_parallel_training_goes_on_after_workers_were_killed(
    start_run: Any, tmp_path: Path
) -> None:
    out = _train(start_run, tmp_path, 20, [(1, 0, 7), (0, 0, 13)])
    assert re.search(r"lost: .*rank 1 \(pid \d+", out) and re.search(r"lost: .*rank 0 \(pid", out)


_MEETS = """
    import fastdist as torch
    from fastdist import distributed as dist
    from fastdist.core.errors import CollectiveLostError
    from fastdist.distributed.links import joining
    if rank == 1 and count < 2:
        joining._share_memory = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    while True:
        try:
            dist.init_process_group()
            break
        except CollectiveLostError as error:
            print("lost:", error, flush=True)
    total = torch.ones(1)
    dist.all_reduce(total)
    print("total", int(total), flush=True)
    dist.destroy_process_group()
"""


@pytest.mark.one_in(7)
def test_a_worker_that_is_killed_while_groups_are_made_meets_the_others_when_it_is_back(
    start_run: Any,
) -> None:
    run = start_run(WORKER + _MEETS, "-n", "3", "--max-restarts=2", "--restart=worker")
    assert run.end() == 0, run.err.decode()
    out = run.out.decode()
    assert out.count("total 3") == 3
    lost = [line for line in out.splitlines() if "lost:" in line]
    assert all(re.search(r"rank 1 (\(pid \d+ on .* was lost|does not come)", line) for line in lost)


@pytest.mark.slow
def test_data_parallel_training_goes_on_after_every_kill(start_run: Any, tmp_path: Path) -> None:
    draw = random.Random(0)
    steps = sorted(draw.sample(range(600), 30))
    lives = [0, 0, 0]
    kills = []
    for step in steps:
        rank = draw.randrange(3)
        kills.append((rank, lives[rank], step))
        lives[rank] += 1
    assert _train(start_run, tmp_path, 600, kills).count("] lost: ") == 60

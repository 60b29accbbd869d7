"""Data-parallel training whose workers are killed now and then.

Usage: python -m tests.launch.training_soak [SECONDS [SECONDS BETWEEN KILLS [SEED]]]
Three workers of `fastdist run --restart=worker` train from checkpoints; one of them, drawn by the
seed, is killed at any point now and then. The weights at the end are those of a run without kills,
to the bit. Prints kills, steps, and what each life held first and last.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import fastdist

SIZE = 3
_MOST_RESTARTS = 10_000
# A job that makes no progress for so long hangs.
STANDS_STILL_S = 120.0
_ROOT = str(Path(fastdist.__file__).parents[1])

# Each step takes at least `pace_s`, so that kills meet all parts of the program: starts as well.
PROGRAM = """
import json, os, sys, time
import fastdist as torch
from fastdist import distributed as dist
from fastdist.core.errors import CollectiveError

folder, pace_s, most = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
rank, life = int(os.environ["RANK"]), dist.restart_count()
saved, EVERY = os.path.join(folder, "saved.pt"), 20
log = open(os.path.join(folder, f"log.{rank}.{life}"), "a", buffering=1)
joined = 0


def note(step):
    resident = int(open("/proc/self/statm").read().split()[1]) * 4096
    fds = len(os.listdir("/proc/self/fd"))
    threads = len(os.listdir("/proc/self/task"))
    log.write(json.dumps([os.getpid(), step, joined, resident, fds, threads]) + "\\n")


def make():
    torch.manual_seed(0)
    layers = torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4)
    model = torch.nn.Sequential(*layers)
    return model, torch.optim.Adam(model.parameters(), lr=0.001)


def batch(step):
    generator = torch.Generator().manual_seed(3 * step + rank)
    return torch.randn(16, 32, generator=generator), torch.randn(16, 4, generator=generator)


def is_over(step):
    # Rank 0 has looked whether the soak is to end; all do what it says.
    stop = os.path.exists(os.path.join(folder, "stop"))
    flag = torch.tensor([step >= most if most else stop])
    dist.broadcast(flag, 0)
    return bool(flag)


def train():
    global joined
    dist.init_process_group()
    joined += 1
    model, optimizer = make()
    step = 0
    if os.path.exists(saved):
        state = torch.load(saved)
        step = state["step"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    pair = dist.new_group([0, 2])
    note(step)
    while True:
        began = time.monotonic()
        inputs, targets = batch(step)
        optimizer.zero_grad()
        ((parallel(inputs) - targets) ** 2).mean().backward()
        optimizer.step()
        step += 1
        if rank != 1:
            dist.all_reduce(torch.ones(3), group=pair)
        if step % EVERY == 0:
            if rank == 0:
                state = {"step": step, "model": model.state_dict()}
                torch.save({**state, "optimizer": optimizer.state_dict()}, saved + ".new")
                os.replace(saved + ".new", saved)
            dist.barrier()
            note(step)
            if is_over(step):
                return model, step
        time.sleep(max(0.0, began + pace_s - time.monotonic()))


while True:
    try:
        model, step = train()
        break
    except CollectiveError as error:
        print(f"rank {rank} life {life}: {type(error).__name__}: {error}", flush=True)
        dist.destroy_process_group()
if rank == 0:
    torch.save({"step": step, "model": model.state_dict()}, os.path.join(folder, "final.pt"))
dist.barrier()
dist.destroy_process_group()
print("trained", flush=True)
"""


class Life(NamedTuple):
    """A worker's record of one life: first and last (pid, step, joined, bytes, fds, threads)."""

    rank: int
    life: int
    first: list[int]
    last: list[int]


class Soak(NamedTuple):
    """The result of a soak."""

    kills: int
    seconds: float
    step: int
    weights: dict[str, Any]
    lives: list[Life]
    printed: str
    launcher: tuple[list[int], list[int]]


def run(seconds: float, between_s: float, seed: int, pace_s: float = 0.03) -> tuple[Soak, Soak]:
    """Train for some seconds with kills, then as many steps without; return both."""
    with TemporaryDirectory() as first, TemporaryDirectory() as second:
        with_kills = _train(Path(first), seconds, between_s, seed, pace_s, 0)
        without = _train(Path(second), 0.0, 0.0, seed, 0.0, with_kills.step)
        return with_kills, without


def _train(
    folder: Path, seconds: float, between_s: float, seed: int, pace_s: float, steps: int
) -> Soak:
    draw, kills, began = random.Random(seed), 0, time.monotonic()
    (folder / "train.py").write_text(PROGRAM)
    out = folder / "printed"
    command = [sys.executable, "-m", "fastdist.run", "-n", str(SIZE), "--restart=worker"]
    command += [f"--max-restarts={_MOST_RESTARTS}", str(folder / "train.py"), str(folder)]
    with out.open("w") as printed:
        job = subprocess.Popen(
            [*command, str(pace_s), str(steps)],
            stdout=printed,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "PYTHONPATH": _ROOT,
                "OMP_NUM_THREADS": "1",
                "NUMBA_NUM_THREADS": "1",
            },
        )
    held: list[int] = []
    last_held: list[int] = []
    try:
        next_kill, progress = began + between_s, _Progress(folder)
        while job.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                job.wait(0.02)
            progress.require(out)
            now = time.monotonic()
            if seconds and now > began + seconds:
                (folder / "stop").touch()
            elif seconds and now > next_kill and (victim := _victim(folder, draw)):
                os.kill(victim, signal.SIGKILL)
                kills += 1
                # Anywhere within the interval: in starts, in steps, in checkpoints.
                next_kill += between_s
            if not held and progress.step:
                held = _held(job.pid)
            last_held = _held(job.pid) or last_held
    finally:
        job.kill()
        job.wait()
    text = out.read_text()
    if job.returncode or text.count("trained") != SIZE:
        raise AssertionError(f"the job ended with {job.returncode}:\n{text[-6000:]}")
    final = fastdist.load(folder / "final.pt")
    weights = {name: value.numpy() for name, value in final["model"].items()}
    took_s = time.monotonic() - began
    launcher = (held, last_held)
    return Soak(kills, took_s, final["step"], weights, list(_lives(folder)), text, launcher)


class _Progress:
    """Whether the job goes on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.step, self._since = 0, time.monotonic()

    def require(self, printed: Path) -> None:
        """Raise if no worker has written for long."""
        now = time.monotonic()
        if now < self._since + 1.0:
            return
        written = [path.stat().st_mtime for path in self._folder.glob("log.*")]
        if written and time.time() - max(written) > STANDS_STILL_S:
            raise AssertionError(f"the job stands still:\n{printed.read_text()[-6000:]}")
        self.step, self._since = len(written), now


def _victim(folder: Path, draw: random.Random) -> int:
    """Return the process of a worker to kill; 0 while none has begun with its program.

    On a busy machine a worker may take longer to start than kills are apart.
    """
    found = {}
    for pid in _workers(folder):
        pairs = (
            one.partition(b"=") for one in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        )
        given = {name: value.decode() for name, _, value in pairs}
        rank, life = given.get(b"RANK", ""), given.get(b"FASTDIST_RESTART_COUNT", "")
        if (folder / f"log.{rank}.{life}").exists():
            found[rank] = pid
    return found[draw.choice(sorted(found))] if found else 0


def _workers(folder: Path) -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        # The launcher has -m and the name of its module as well.
        if str(folder / "train.py").encode() in words and b"-m" not in words:
            yield int(entry.name)


def _held(pid: int) -> list[int]:
    """Return resident bytes and descriptors of a process; nothing once it has ended."""
    try:
        resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
        fds = len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, IndexError):
        return []
    return [resident, fds] if resident else []


def _lives(folder: Path) -> Iterator[Life]:
    for path in sorted(folder.glob("log.*")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        if lines:
            _, rank, life = path.name.split(".")
            yield Life(int(rank), int(life), lines[0], lines[-1])


def main(seconds: float = 600.0, between_s: float = 20.0, seed: int = 0) -> int:
    """Run a soak, print what it found; 1 if weights differ."""
    soak, without = run(seconds, between_s, seed)
    print(f"{soak.kills} kills in {soak.seconds:.0f} s, {soak.step} steps")
    print("launcher: bytes, descriptors: first", soak.launcher[0], "last", soak.launcher[1])
    print("rank life joined: resident MB, descriptors, threads at first -> at last")
    for rank, life, first, last in soak.lives:
        before, after = [[one[3] >> 20, *one[4:]] for one in (first, last)]
        print(f"  {rank} {life} joined {last[2]}: {before} -> {after}, steps {first[1]}..{last[1]}")
    errors = sorted({line for line in soak.printed.splitlines() if "Error" in line})
    print(f"{len(errors)} kinds of errors; the first: {errors[:3]}")
    differ = [name for name, one in soak.weights.items() if (one != without.weights[name]).any()]
    print(f"without kills: {without.seconds:.0f} s; weights that differ: {differ}")
    return 1 if differ or not soak.kills else 0


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(*map(float, given[:2]), *map(int, given[2:])))

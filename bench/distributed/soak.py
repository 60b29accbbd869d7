"""A soak test of data-parallel training and RPC in one job, whose workers are killed repeatedly.

Three workers of `fastdist run --restart=worker` train from checkpoints. Another thread of each
worker makes plain calls, calls to references and distributed backward passes on the other workers,
and checks the results. A round takes 24 s and has one kill, so the default of 25 rounds takes ten
minutes. Workers 0 and 1 are killed at any point: in starts, steps and checkpoints. Worker 2 is
never killed. The memory, descriptors and threads of worker 2 and of the launcher must not grow. The
final weights must be bitwise equal to the weights of a run without kills.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from ..harness import Failed, Row, Spread

NEEDS = ("zmq",)
ROUND_S = 24.0
SIZE = 3
SPARED = 2
# The allowed growth of worker 2 and of the launcher from the second quarter to the end: memory,
# descriptors, threads. A leak of one descriptor per kill exceeds this limit.
MOST_MORE = (3 << 20, 2, 1)
_MOST_RESTARTS = 10_000
# A job counts as hanging after this long without progress.
STANDS_STILL_S = 120.0
_EVERY = 20
_PACE_S = 0.03
_CALL_PAUSE_S = 0.02
_ROOT = Path(__file__).resolve().parents[2]


class Held(NamedTuple):
    """Memory in bytes, descriptors and threads of a process."""

    resident: int
    files: int
    threads: int


class Soak(NamedTuple):
    """The results of one job. `lives` has (rank, restart count) -> samples of that worker."""

    kills: int
    seconds: float
    step: int
    weights: dict[str, Any]
    lives: dict[tuple[int, int], list[Held]]
    launcher: list[Held]
    calls: Counter[str]
    wrong: list[str]


def run(rounds: int) -> list[Row]:
    """Train and call for a while with kills, then do as many steps without kills; compare both."""
    soak, without = soak_and_compare(rounds * ROUND_S, ROUND_S)
    print(
        f"{soak.kills} kills in {soak.seconds:.0f} s, {soak.step} steps; "
        f"without kills {without.seconds:.0f} s; calls {dict(soak.calls)}",
        flush=True,
    )
    rows = [Row("step with kills", Spread(*[soak.seconds / soak.step] * 3), None, None, None, 1)]
    for name, held in (
        (f"worker {SPARED}", soak.lives[SPARED, 0]),
        ("launcher", soak.launcher),
    ):
        early, late = quarters(held)
        print(f"{name}: {_shown(early)} in the second quarter, {_shown(late)} in the last")
        resident = [one.resident for one in held[len(held) // 4 :]]
        rows.append(
            Row(
                f"{name}, resident",
                Spread.of(resident),
                None,
                None,
                None,
                len(resident),
                unit="bytes",
            )
        )
    if found := flaws(soak, without):
        raise Failed("; ".join(found), rows)
    return rows


def _shown(held: Held) -> str:
    return f"{held.resident / 1e6:.1f} MB, {held.files} descriptors, {held.threads} threads"


def soak_and_compare(seconds: float, between_s: float, seed: int = 0) -> tuple[Soak, Soak]:
    """Train for some seconds with kills, then do as many steps without kills. Return both
    results.
    """
    with TemporaryDirectory() as first, TemporaryDirectory() as second:
        soak = _Job(Path(first), _PACE_S, 0).run(seconds, between_s, seed)
        return soak, _Job(Path(second), 0.0, soak.step).run(0.0, 0.0, seed)


def quarters(held: list[Held]) -> tuple[Held, Held]:
    """Return the medians of the second and of the last quarter of the samples."""
    quarter = max(1, len(held) // 4)
    parts = held[quarter : 2 * quarter] or held, held[-quarter:]
    early, late = (Held(*(int(median(column)) for column in zip(*part))) for part in parts)
    return early, late


def flaws(soak: Soak, without: Soak) -> list[str]:
    """Return a list of strings that describe the faults of a soak."""
    found = list(soak.wrong)
    if not soak.kills:
        found.append("no worker was killed")
    differ = [name for name, one in soak.weights.items() if (one != without.weights[name]).any()]
    if differ:
        found.append(f"weights differ from those of a run without kills: {', '.join(differ)}")
    if not soak.calls["answered"]:
        found.append("no call was answered")
    lived_on = [life for rank, life in soak.lives if rank == SPARED]
    if lived_on != [0]:
        found.append(f"worker {SPARED} was lost, which nobody had killed: lives {lived_on}")
    for name, held in ((f"worker {SPARED}", soak.lives[SPARED, 0]), ("launcher", soak.launcher)):
        early, late = quarters(held)
        for what, before, after, most in zip(Held._fields, early, late, MOST_MORE, strict=True):
            if after > before + most:
                found.append(f"{name}: {what} grew from {before} to {after}")
    return found


class _Job:
    """One job whose progress is observed and whose workers are killed."""

    def __init__(self, folder: Path, pace_s: float, steps: int) -> None:
        self._folder, self._began = folder, time.monotonic()
        command = [sys.executable, "-m", "fastdist.run", "-n", str(SIZE), "--restart=worker"]
        command += [f"--max-restarts={_MOST_RESTARTS}", "-m", "bench.distributed.soak"]
        self._out = folder / "printed"
        with self._out.open("w") as printed:
            self._process = subprocess.Popen(
                [*command, str(folder), str(pace_s), str(steps)],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                cwd=_ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
            )
        self._held: list[Held] = []

    def run(self, seconds: float, between_s: float, seed: int) -> Soak:
        """Wait for the end of the job; kill workers for `seconds`, once every `between_s`."""
        draw, kills, until, next_kill = random.Random(seed), 0, math.inf, math.inf
        try:
            while self._process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(0.05)
                self._require_progress()
                now = time.monotonic()
                if until == math.inf and seconds and self._trains():
                    until, next_kill = now + seconds, now + between_s
                if now > until:
                    (self._folder / "stop").touch()
                elif now > next_kill and (victim := self._victim(draw)):
                    with suppress(ProcessLookupError):  # the worker has just ended
                        os.kill(victim, signal.SIGKILL)
                        kills += 1
                    next_kill += between_s
        finally:
            self._process.kill()
            self._process.wait()
        return self._found(kills)

    def _trains(self) -> bool:
        return any(lines[-1][1] for lines in _logs(self._folder).values())

    def _require_progress(self) -> None:
        """Sample the launcher once a second. Raise if no worker has written to its log for a long
        time.
        """
        if time.monotonic() < self._began + len(self._held) + 1.0:
            return
        with suppress(OSError, IndexError):  # the launcher has just ended
            self._held.append(held_by(self._process.pid))
        written = [path.stat().st_mtime for path in self._folder.glob("log.*")]
        last = max(written, default=time.time() - (time.monotonic() - self._began))
        if time.time() - last > STANDS_STILL_S:
            raise AssertionError(f"the job stands still:\n{self._out.read_text()[-6000:]}")

    def _victim(self, draw: random.Random) -> int:
        """Return the pid of a worker to kill; 0 while no worker has started its program."""
        pids = {rank: int(lines[-1][0]) for (rank, _), lines in sorted(_logs(self._folder).items())}
        there = [
            pid for rank, pid in pids.items() if rank != SPARED and Path(f"/proc/{pid}").exists()
        ]
        return draw.choice(there) if there else 0

    def _found(self, kills: int) -> Soak:
        text = self._out.read_text()
        if self._process.returncode or text.count("trained") != SIZE:
            raise AssertionError(f"the job ended with {self._process.returncode}:\n{text[-6000:]}")
        final = importlib.import_module("fastdist").load(self._folder / "final.pt")
        calls: Counter[str] = Counter()
        for path in self._folder.glob("calls.*"):
            calls.update(json.loads(path.read_text()))
        return Soak(
            kills,
            time.monotonic() - self._began,
            final["step"],
            {name: value.numpy() for name, value in final["model"].items()},
            {
                life: [Held(*line[2:]) for line in lines]
                for life, lines in _logs(self._folder).items()
            },
            self._held,
            calls,
            [
                line
                for path in self._folder.glob("wrong.*")
                for line in path.read_text().splitlines()
            ],
        )


def _logs(folder: Path) -> dict[tuple[int, int], list[list[int]]]:
    """Return each worker's log lines (pid, step, memory, ...) by rank and restart count."""
    found = {}
    for path in folder.glob("log.*"):
        # The last line of a killed worker may be incomplete.
        whole = path.read_text().rpartition("\n")[0].splitlines()
        if whole:
            _, rank, life = path.name.split(".")
            found[int(rank), int(life)] = [json.loads(line) for line in whole]
    return dict(sorted(found.items()))


def held_by(pid: int | str) -> Held:
    """Return memory, descriptors and threads of a process; "self" means this process.

    Raises  OSError or IndexError if the process has ended
    """
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Held(
        pages * os.sysconf("SC_PAGE_SIZE"),
        len(os.listdir(f"/proc/{pid}/fd")),
        len(os.listdir(f"/proc/{pid}/task")),
    )


# ---- in a worker --------------------------------------------------------------------------------


def work(folder: Path, pace_s: float, most: int) -> None:
    """Train until rank 0 ends the soak, and call the other workers meanwhile."""
    from fastdist import distributed as dist
    from fastdist.core.errors import CollectiveError
    from fastdist.distributed import rpc

    rank, life = int(os.environ["RANK"]), dist.restart_count()
    trainer = Trainer(folder, rank, life, pace_s, most)
    rpc.init_rpc(f"w{rank}")
    callers = Callers(rank)
    while True:
        try:
            trainer.train()
            break
        except CollectiveError as error:
            print(f"rank {rank} life {life}: {type(error).__name__}: {error}", flush=True)
            dist.destroy_process_group()
    callers.end()
    (folder / f"calls.{rank}.{life}").write_text(json.dumps(callers.counts))
    if callers.wrong:
        (folder / f"wrong.{rank}.{life}").write_text("\n".join(callers.wrong))
    trainer.save_result()
    dist.barrier()
    dist.destroy_process_group()
    rpc.shutdown()
    print("trained", flush=True)


class Trainer:
    """Trains a small model with DistributedDataParallel, starting from the last checkpoint."""

    def __init__(self, folder: Path, rank: int, life: int, pace_s: float, most: int) -> None:
        self._folder, self._rank, self._pace_s, self._most = folder, rank, pace_s, most
        self._saved = folder / "saved.pt"
        self._log = (folder / f"log.{rank}.{life}").open("a", buffering=1)
        self._step = 0
        self._note()

    def _note(self) -> None:
        line = json.dumps([os.getpid(), self._step, *held_by("self")])
        self._log.write(line + "\n")

    def train(self) -> None:
        """Do steps until the end of the soak.

        Raises  CollectiveError if another worker was lost; call `train` again then
        """
        import fastdist as torch
        from fastdist import distributed as dist

        dist.init_process_group()
        torch.manual_seed(0)
        layers = torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4)
        self._model = torch.nn.Sequential(*layers)
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=0.001)
        self._step = 0
        if self._saved.exists():
            state = torch.load(self._saved)
            self._step = state["step"]
            self._model.load_state_dict(state["model"])
            self._optimizer.load_state_dict(state["optimizer"])
        parallel = torch.nn.parallel.DistributedDataParallel(self._model)
        pair, pause = dist.new_group([0, 2]), threading.Event()
        while True:
            began = time.monotonic()
            self._make_step(torch, parallel)
            if self._rank != 1:
                dist.all_reduce(torch.ones(3), group=pair)
            if self._step % _EVERY == 0:
                self._save(torch)
                dist.barrier()
                self._note()
                if self._is_over(torch, dist):
                    return
            # A minimum time per step, so that kills hit all parts of the program.
            pause.wait(max(0.0, began + self._pace_s - time.monotonic()))

    def _make_step(self, torch: Any, parallel: Any) -> None:
        generator = torch.Generator().manual_seed(3 * self._step + self._rank)
        inputs = torch.randn(16, 32, generator=generator)
        targets = torch.randn(16, 4, generator=generator)
        self._optimizer.zero_grad()
        ((parallel(inputs) - targets) ** 2).mean().backward()
        self._optimizer.step()
        self._step += 1

    def _save(self, torch: Any) -> None:
        if self._rank == 0:
            new = self._saved.with_suffix(".new")
            torch.save({**self._state(), "optimizer": self._optimizer.state_dict()}, new)
            new.replace(self._saved)

    def _is_over(self, torch: Any, dist: Any) -> bool:
        # Rank 0 checks whether the soak is to end, and broadcasts the result.
        stop = (self._folder / "stop").exists()
        flag = torch.tensor([self._step >= self._most if self._most else stop])
        dist.broadcast(flag, 0)
        return bool(flag)

    def save_result(self) -> None:
        """Save the weights, on rank 0."""
        import fastdist as torch

        if self._rank == 0:
            torch.save(self._state(), self._folder / "final.pt")

    def _state(self) -> dict[str, Any]:
        return {"step": self._step, "model": self._model.state_dict()}


def double(x: Any) -> Any:
    """Return twice a tensor; other workers call this."""
    return x * 2


class Total:
    """A running sum; other workers create and call it."""

    def __init__(self) -> None:
        self._sum = 0

    def add(self, number: int) -> int:
        """Add a number, and return the sum so far."""
        self._sum += number
        return self._sum


class Callers:
    """A thread that calls the other workers, and counts answers and errors."""

    def __init__(self, rank: int) -> None:
        self._others = [f"w{other}" for other in range(SIZE) if other != rank]
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._call_all, name="soak-callers")
        self._thread.start()

    def end(self) -> None:
        """Stop the calls."""
        self._closing.set()
        self._thread.join()

    def _call_all(self) -> None:
        from fastdist.core.errors import ContextError, RpcError

        kinds = (call, call_reference, call_backward)
        number = 0
        while not self._closing.wait(_CALL_PAUSE_S):
            number += 1
            kind: Callable[[str, int], bool] = kinds[number % 3]
            try:
                if not kind(self._others[number // 3 % 2], number):
                    self.wrong.append(f"{kind.__name__} {number}: another result")
                self.counts["answered"] += 1
            except (RpcError, ContextError) as error:
                self.counts[type(error).__name__] += 1
            except Exception as error:  # the soak reports any error
                self.wrong.append(f"{kind.__name__} {number}: {error!r}")


def call(name: str, number: int) -> bool:
    """Call another worker with a tensor; return whether the answer is correct."""
    import fastdist as torch
    from fastdist.distributed import rpc

    x = torch.full((1 + 997 * (number % 5),), float(number))
    return bool((rpc.rpc_sync(name, double, (x,), timeout=30) == 2 * x).all())


def call_reference(name: str, number: int) -> bool:
    """Create an object on another worker and call it; return whether the answer is correct."""
    from fastdist.distributed import rpc

    total = rpc.remote(name, Total, timeout=30)
    first, second = (total.rpc_sync(timeout=30).add(number) for _ in range(2))
    return bool((first, second) == (number, 2 * number))


def call_backward(name: str, number: int) -> bool:
    """Differentiate a call to another worker; return whether the gradient is correct."""
    import fastdist as torch
    from fastdist.distributed import autograd, rpc

    x = torch.full((8,), float(number), requires_grad=True)
    with autograd.context() as context_id:
        y = rpc.rpc_sync(name, double, (x * x,), timeout=30)
        autograd.backward(context_id, [y.sum()])
        return bool((autograd.get_gradients(context_id)[x] == 4 * number).all())


if __name__ == "__main__":
    # Imported by name, because other workers cannot look up functions in __main__.
    given = sys.argv[1:]
    module = importlib.import_module("bench.distributed.soak")
    module.work(Path(given[0]), float(given[1]), int(given[2]))

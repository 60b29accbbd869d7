"""Calls between two processes, against torch's default transports."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection, Pipe
from typing import Any

from ..harness import Case, Row, Stopwatch, compare, peer_torch
from ..kept_port import KeptPort

NEEDS = ("zmq",)
OUTSTANDING = 256
# case: (work, turns per sample, ratio to reach)
CASES: dict[str, tuple[str, int, float | None]] = {
    "rpc_sync, None": ("nothing", 100, 0.25),
    "rpc_sync, 1 KB tensor": ("1 KB", 100, 0.3),
    "rpc_sync, 64 KB tensor": ("64 KB", 100, 0.5),
    "rpc_sync, 1 MB tensor": ("1 MB", 100, None),
    "rpc_async, 1 in flight": ("alone", 100, 0.7),
    f"rpc_async, {OUTSTANDING} in flight": ("flight", 2, 1 / 3),
    "remote and to_here": ("to_here", 100, 0.8),
}
_IDLE_S = 10.0


def run(rounds: int) -> list[Row]:
    """Compare blocking calls (without a value, with tensors), concurrent calls, and idling."""
    with ExitStack() as ends:
        ours = _couple("fastdist", ends)
        peer = _couple("torch", ends) if peer_torch() is not None else None
        ours.warm_up()
        if peer is not None:
            peer.warm_up()
        cases = [
            Case(
                name,
                ours.stopwatch(what),
                peer and peer.stopwatch(what),
                target=goal,
                parts=OUTSTANDING if what == "flight" else 1,
                number=number,
            )
            for name, (what, number, goal) in CASES.items()
        ]
        rows = compare(cases, rounds)
        rows += compare([Case("idle, cores of both", ours.idle, peer and peer.idle, number=1)], 2)
    return rows


def compare_couples(
    module: str, cases: Mapping[str, tuple[str, int, float | None]], rounds: int
) -> list[Row]:
    """Compare the calls of a benchmark's module between fastdist and torch, if torch is installed.

    A case is the work that makes the calls, the turns per sample, and the ratio to reach.
    """
    works = tuple(what for what, _, _ in cases.values())
    with ExitStack() as ends:
        names = ("fastdist", *(["torch"] * bool(peer_torch())))
        couples = [_couple(name, ends, module) for name in names]
        for couple in couples:
            couple.warm_up(*works)
        timed = [
            Case(name, *(couple.stopwatch(what) for couple in couples), target=goal, number=number)
            for name, (what, number, goal) in cases.items()
        ]
        return compare(timed, rounds)


def _couple(name: str, ends: ExitStack, *module: str) -> Couple:
    """Start a Couple that ends when the stack is closed, even after an error."""
    couple = Couple(name, *module)
    ends.callback(couple.end)
    return couple


class Couple:
    """Two or more processes of one library: the first calls on request, the others answer.

    The processes run `_live` of a benchmark's module; `of_ranks` has additional environment
    variables for each rank. torch's workers poll even when they are idle. They are stopped outside
    of their turns, because they would use the cores that fastdist's workers need.
    """

    def __init__(
        self,
        library: str,
        module: str = "bench.distributed.rpc",
        size: int = 2,
        of_ranks: Sequence[Mapping[str, str]] = (),
    ) -> None:
        self._polls = library == "torch"
        self._here, there = Pipe()
        self._kept = KeptPort()
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", module, library, str(rank), str(there.fileno())],
                env={
                    **os.environ,
                    "RANK": str(rank),
                    "WORLD_SIZE": str(size),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(self._kept.number),
                    **(of_ranks[rank] if of_ranks else {}),
                },
                pass_fds=[there.fileno()],
                stdin=subprocess.PIPE,  # closing it stops the workers that only answer
            )
            for rank in range(size)
        ]
        there.close()

    def warm_up(self, *kinds: str) -> None:
        """Make each kind of call a few times."""
        for what in kinds or (what for what, _, _ in CASES.values()):
            self.stopwatch(what)(3)

    def stopwatch(self, what: str) -> Stopwatch:
        """Return a stopwatch that makes the calling process repeat `what` n times."""

        def watch(number: int) -> float:
            seconds: float = self.ask(what, number)
            return seconds

        return watch

    def ask(self, what: str, argument: object) -> Any:
        """Request something of the calling process, and return its answer.

        Raises  RuntimeError if the calling process has ended; its output is printed above
        """
        self._signal(signal.SIGCONT)
        self._here.send((what, argument))
        try:
            while not self._here.poll(1.0):
                if self._processes[0].poll() is not None:
                    raise EOFError
            answer = self._here.recv()
        except EOFError:
            code = self._processes[0].wait()
            raise RuntimeError(
                f"asked for {what} {argument}, the calling process ended with {code}"
            ) from None
        self._signal(signal.SIGSTOP)
        return answer

    def idle(self, number: int) -> float:
        """Return how many cores all processes use while there are no calls."""
        self._signal(signal.SIGCONT)
        before = self._cpu_seconds()
        # Nothing is sent, so poll waits for the full time.
        self._here.poll(_IDLE_S)
        used = self._cpu_seconds() - before
        self._signal(signal.SIGSTOP)
        # Not 0, because the result may be the divisor of a ratio.
        return max(used, 1e-6) / _IDLE_S

    def end(self) -> None:
        """End all processes."""
        self._signal(signal.SIGCONT)
        if self._processes[0].poll() is None:
            self._here.send(("end", 0))
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._kept.close()

    def _signal(self, kind: signal.Signals) -> None:
        if self._polls:
            for process in self._processes:
                process.send_signal(kind)

    def _cpu_seconds(self) -> float:
        # The id of Linux's clock of another process's CPU time, which counts in ns; /proc counts in
        # ticks of 10 ms.
        return sum(time.clock_gettime((~process.pid << 3) | 2) for process in self._processes)


def nothing() -> None:
    """Do nothing; the other worker calls it."""


def same(value: Any) -> Any:
    """Return a tensor that the other worker sent."""
    return value


def _works(rpc: Any, zeros: Callable[[int], Any]) -> dict[str, Callable[[int], None]]:
    sizes = {"1 KB": 256, "64 KB": 1 << 14, "1 MB": 1 << 18}

    def alone(number: int) -> None:
        for _ in range(number):
            rpc.rpc_async("w1", nothing).wait()

    def flight(number: int) -> None:
        for _ in range(number):
            futures = [rpc.rpc_async("w1", nothing) for _ in range(OUTSTANDING)]
            for future in futures:
                future.wait()

    def to_here(number: int) -> None:
        for _ in range(number):
            rpc.remote("w1", nothing).to_here()

    def sync(function: Callable[..., Any], args: Sequence[Any]) -> Callable[[int], None]:
        def work(number: int) -> None:
            for _ in range(number):
                rpc.rpc_sync("w1", function, args)

        return work

    return {
        "nothing": sync(nothing, ()),
        **{size: sync(same, (zeros(number),)) for size, number in sizes.items()},
        "alone": alone,
        "flight": flight,
        "to_here": to_here,
    }


def _live(library: str, rank: int, connection: Connection) -> None:
    if library == "torch":
        import torch
        from torch.distributed import rpc

        torch.set_num_threads(1)
        warn_nobody()
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
        zeros: Callable[[int], Any] = torch.zeros
    else:
        import fastdist
        from fastdist.distributed import rpc

        rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
        zeros = fastdist.zeros
    if rank == 0:
        serve(_works(rpc, zeros), connection)
    else:
        stand_by()
    rpc.shutdown()


def warn_nobody() -> None:
    """Suppress warnings, because torch's warnings would appear between the tables."""
    # A filter is not enough: torch enables some of these warnings again each time.
    warnings.showwarning = lambda *_, **__: None


def stand_by() -> None:
    """Wait until the couple ends; a shutdown at this point would wait for the other workers."""
    sys.stdin.read()


def serve(works: dict[str, Callable[[int], None]], connection: Connection) -> None:
    """For each request (work, count), run the work and send the seconds; return on "end"."""
    while True:
        what, number = connection.recv()
        if what == "end":
            return
        began = time.perf_counter()
        works[what](number)
        connection.send(time.perf_counter() - began)


if __name__ == "__main__":
    # Imported by name, because other workers cannot look up functions in __main__.
    live = importlib.import_module("bench.distributed.rpc")._live
    live(sys.argv[1], int(sys.argv[2]), Connection(int(sys.argv[3])))

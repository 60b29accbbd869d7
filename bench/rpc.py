"""Calls between two processes, beside torch's default transports."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection, Pipe
from typing import Any

from .harness import Case, Row, Stopwatch, compare, peer_torch
from .kept_port import KeptPort

OUTSTANDING = 256
_IDLE_S = 10.0


def run(rounds: int) -> list[Row]:
    """Compare a call without a value, one with a small tensor, calls in flight, and idling."""
    torch_is_here = peer_torch() is not None
    ours = Couple("fastdist")
    peer = Couple("torch") if torch_is_here else None
    try:
        ours.warm_up()
        if peer is not None:
            peer.warm_up()
        cases = [
            _case("rpc_sync, None", "nothing", ours, peer, target=0.7),
            _case("rpc_sync, 1 KB tensor", "small", ours, peer, target=0.8),
            _case("rpc_sync, 1 MB tensor", "large", ours, peer),
            _case(f"rpc_async, {OUTSTANDING} in flight", "flight", ours, peer, target=1 / 3),
        ]
        rows = compare(cases, rounds)
        rows += compare([Case("idle, cores of both", ours.idle, peer and peer.idle, number=1)], 2)
    finally:
        ours.end()
        if peer is not None:
            peer.end()
    return rows


def compare_couples(
    module: str, cases: Mapping[str, tuple[str, int, float | None]], rounds: int
) -> list[Row]:
    """Compare the works of a benchmark's module, ours and, where torch is installed, torch's.

    A case has the name of the work, the turns a sample, and the ratio to reach.
    """
    works = tuple(what for what, _, _ in cases.values())
    couples = [Couple(name, module) for name in ("fastdist", *(["torch"] * bool(peer_torch())))]
    try:
        for couple in couples:
            couple.warm_up(*works)
        timed = [
            Case(name, *(couple.stopwatch(what) for couple in couples), target=goal, number=number)
            for name, (what, number, goal) in cases.items()
        ]
        return compare(timed, rounds)
    finally:
        for couple in couples:
            couple.end()


def _case(
    name: str, what: str, ours: Couple, peer: Couple | None, target: float | None = None
) -> Case:
    parts = OUTSTANDING if what == "flight" else 1
    number = 2 if what == "flight" else 100
    return Case(
        name,
        ours.stopwatch(what),
        None if peer is None else peer.stopwatch(what),
        target=target,
        parts=parts,
        number=number,
    )


class Couple:
    """Two processes of one library: one that calls when told to, and one that answers.

    They run `_live` of the module, which belongs to a benchmark. torch's poll while nobody calls,
    so they are stopped between their turns, or they would take the processor from ours.
    """

    def __init__(self, library: str, module: str = "bench.rpc") -> None:
        self._polls = library == "torch"
        self._here, there = Pipe()
        self._kept = KeptPort()
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", module, library, str(rank), str(there.fileno())],
                env={
                    **os.environ,
                    "RANK": str(rank),
                    "WORLD_SIZE": "2",
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(self._kept.number),
                },
                pass_fds=[there.fileno()],
            )
            for rank in (0, 1)
        ]
        there.close()

    def warm_up(self, *kinds: str) -> None:
        """Make each kind of call a few times."""
        for what in kinds or ("nothing", "small", "large", "flight"):
            self.stopwatch(what)(3)

    def stopwatch(self, what: str) -> Stopwatch:
        """Return a stopwatch that lets the caller do `what` n times."""

        def watch(number: int) -> float:
            self._signal(signal.SIGCONT)
            self._here.send((what, number))
            seconds: float = self._here.recv()
            self._signal(signal.SIGSTOP)
            return seconds

        return watch

    def idle(self, number: int) -> float:
        """Return how many cores both use while nobody calls."""
        self._signal(signal.SIGCONT)
        before = self._cpu_seconds()
        # Something to wait on that never comes.
        self._here.poll(_IDLE_S)
        used = self._cpu_seconds() - before
        self._signal(signal.SIGSTOP)
        return used / _IDLE_S

    def end(self) -> None:
        """End both processes."""
        self._signal(signal.SIGCONT)
        self._here.send(("end", 0))
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
        total = 0.0
        ticks = os.sysconf("SC_CLK_TCK")
        for process in self._processes:
            with open(f"/proc/{process.pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / ticks
        return total


def nothing() -> None:
    """Be called."""


def same(value: Any) -> Any:
    """Be called with a tensor, and give it back."""
    return value


def _works(rpc: Any, zeros: Callable[[int], Any]) -> dict[str, Callable[[int], None]]:
    small, large = zeros(256), zeros(1 << 18)

    def flight(number: int) -> None:
        for _ in range(number):
            futures = [rpc.rpc_async("w1", nothing) for _ in range(OUTSTANDING)]
            for future in futures:
                future.wait()

    def sync(function: Callable[..., Any], args: Sequence[Any]) -> Callable[[int], None]:
        def work(number: int) -> None:
            for _ in range(number):
                rpc.rpc_sync("w1", function, args)

        return work

    return {
        "nothing": sync(nothing, ()),
        "small": sync(same, (small,)),
        "large": sync(same, (large,)),
        "flight": flight,
    }


def _live(library: str, rank: int, connection: Connection) -> None:
    if library == "torch":
        import torch
        from torch.distributed import rpc

        torch.set_num_threads(1)
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
        zeros: Callable[[int], Any] = torch.zeros
    else:
        import fastdist
        from fastdist.distributed import rpc

        rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
        zeros = fastdist.zeros
    if rank == 0:
        serve(_works(rpc, zeros), connection)
    rpc.shutdown()


def serve(works: dict[str, Callable[[int], None]], connection: Connection) -> None:
    """Do what is asked for as often as it is asked for, and tell the seconds, until the end."""
    while True:
        what, number = connection.recv()
        if what == "end":
            return
        began = time.perf_counter()
        works[what](number)
        connection.send(time.perf_counter() - began)


if __name__ == "__main__":
    # Functions are found by name on the other worker: by the module's, not by __main__.
    live = importlib.import_module("bench.rpc")._live
    live(sys.argv[1], int(sys.argv[2]), Connection(int(sys.argv[3])))

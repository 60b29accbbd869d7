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
# case: (what, turns a sample, ratio to reach)
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
    """Compare calls that wait, without a value and with tensors, calls in flight, and idling."""
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
    """Compare the works of a benchmark's module, ours and, where torch is installed, torch's.

    A case has the name of the work, the turns a sample, and the ratio to reach.
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
    """Start a couple that ends with the stack, whatever becomes of the others."""
    couple = Couple(name, *module)
    ends.callback(couple.end)
    return couple


class Couple:
    """Two processes of one library, or more: one that calls when told to, and others that answer.

    They run `_live` of the module, which belongs to a benchmark, and `of_ranks` has more variables
    of their environments. torch's poll while nobody calls, so they are stopped between their turns,
    or they would take the processor from ours.
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
                stdin=subprocess.PIPE,  # its end stops workers that call nobody
            )
            for rank in range(size)
        ]
        there.close()

    def warm_up(self, *kinds: str) -> None:
        """Make each kind of call a few times."""
        for what in kinds or (what for what, _, _ in CASES.values()):
            self.stopwatch(what)(3)

    def stopwatch(self, what: str) -> Stopwatch:
        """Return a stopwatch that lets the caller do `what` n times."""

        def watch(number: int) -> float:
            seconds: float = self.ask(what, number)
            return seconds

        return watch

    def ask(self, what: str, argument: object) -> Any:
        """Let the caller do something, and return what it answers.

        Raises  RuntimeError if the caller has ended; what it said stands above
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
        """Return how many cores both use while nobody calls."""
        self._signal(signal.SIGCONT)
        before = self._cpu_seconds()
        # Something to wait on that never comes.
        self._here.poll(_IDLE_S)
        used = self._cpu_seconds() - before
        self._signal(signal.SIGSTOP)
        # At least so much that a ratio to it can be had.
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
        # Linux's clock of what another process has used, in ns: /proc counts in ticks of 10 ms.
        return sum(time.clock_gettime((~process.pid << 3) | 2) for process in self._processes)


def nothing() -> None:
    """Be called."""


def same(value: Any) -> Any:
    """Be called with a tensor, and give it back."""
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
    """Let what torch warns of, most of it its own, not stand in the tables."""
    # No filter would do: it asks for some of these warnings each time.
    warnings.showwarning = lambda *_, **__: None


def stand_by() -> None:
    """Be there for calls of others until the couple ends: who shuts down waits for the others."""
    sys.stdin.read()


def serve(works: dict[str, Callable[[int], None]], connection: Connection) -> None:
    """Run the requested works as often as requested, and reply with the seconds, until the end."""
    while True:
        what, number = connection.recv()
        if what == "end":
            return
        began = time.perf_counter()
        works[what](number)
        connection.send(time.perf_counter() - began)


if __name__ == "__main__":
    # Functions are found by name on the other worker: by the module's, not by __main__.
    live = importlib.import_module("bench.distributed.rpc")._live
    live(sys.argv[1], int(sys.argv[2]), Connection(int(sys.argv[3])))

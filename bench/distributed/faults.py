"""The delay of errors after a peer was killed, and after a time-out ended: p50 and p99."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from multiprocessing.connection import Connection, Pipe
from typing import Any

from ..harness import Row, Spread
from ..kept_port import KeptPort

NEEDS = ("zmq",)
KILLS_A_ROUND = 8
TIMEOUTS_A_ROUND = 80
_CALLERS = 2
_VICTIMS_A_GROUP = 25
_THREADS = 4
_TIMEOUTS_MS = (10, 17, 25, 40)
# How long `hold` blocks: longer than the longest time-out, so that no answer comes before it.
_HELD_S = 0.3
_DEADLINE_S = 60.0


def run(rounds: int) -> list[Row]:
    """Kill workers during calls of every kind, and let calls time out.

    A round has 8 kills and 80 time-outs; the default of 25 rounds suffices for a p99.
    """
    # In a separate process, which must fork many workers before it has a thread or a socket.
    told = subprocess.run(
        [sys.executable, "-m", "bench.distributed.faults", str(rounds)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=120 + 10 * rounds,
    ).stdout
    found = json.loads(told)
    rows = []
    for name, unit, promised_s in (
        ("SIGKILL of a peer to its error", "kills", 0.2),
        ("time-out, after its time", "time-outs", 0.02),
    ):
        seconds = sorted(found[unit])
        p99 = percentile(seconds, 0.99)
        print(
            f"{name}: {found['number'][unit]} {unit}, {len(seconds)} errors: "
            f"p50 {percentile(seconds, 0.5) * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms, "
            f"first {seconds[0] * 1e3:.2f} ms, last {seconds[-1] * 1e3:.2f} ms; promised p99 "
            f"{promised_s * 1e3:g} ms: {'kept' if p99 <= promised_s else 'MISSED'}",
            flush=True,
        )
        rows.append(Row(name, Spread.of(seconds), None, None, None, rounds))
        tail = Spread(p99, percentile(seconds, 0.95), seconds[-1])
        rows.append(Row(f"{name}: p99 [p95-last]", tail, None, None, None, rounds))
    return rows


def percentile(ordered: list[float], share: float) -> float:
    """Return the smallest value v such that at least `share` of all values are at most v."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


# ---- in the process that forks ------------------------------------------------------------------


def measure(rounds: int) -> dict[str, Any]:
    """Return the measured times in seconds, and the counts."""
    importlib.import_module("fastdist.distributed.rpc")  # imported once, before all forks
    kills: list[float] = []
    left = num_kills = rounds * KILLS_A_ROUND
    while left:
        kills += _kill_group(min(_VICTIMS_A_GROUP, left))
        left -= min(_VICTIMS_A_GROUP, left)
    timeouts = _time_out(rounds * TIMEOUTS_A_ROUND)
    number = {"kills": num_kills, "time-outs": len(timeouts)}
    return {"kills": kills, "time-outs": timeouts, "number": number}


class Forked:
    """A worker process, and the pipe through which it gets commands."""

    def __init__(self, rank: int, environment: dict[str, str]) -> None:
        self._here, there = Pipe()
        self.pid = os.fork()
        if not self.pid:
            status = 1
            try:
                os.environ.update(environment, RANK=str(rank))
                _live(rank, there)
                status = 0
            finally:
                os._exit(status)
        there.close()

    def tell(self, *words: Any) -> None:
        """Send a command."""
        self._here.send(words)

    def hear(self) -> Any:
        """Wait for the answer to a command."""
        if not self._here.poll(_DEADLINE_S):
            raise TimeoutError(f"worker {self.pid} did not answer within {_DEADLINE_S:g} s")
        return self._here.recv()

    def kill(self) -> float:
        """Kill the process, and return the time of the kill."""
        killed = time.monotonic()
        os.kill(self.pid, signal.SIGKILL)
        return killed


@contextmanager
def _group(size: int) -> Iterator[list[Forked]]:
    kept = KeptPort()
    environment = {
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(kept.number),
    }
    workers = [Forked(rank, environment) for rank in range(size)]
    try:
        for worker in workers:
            worker.hear()
        yield workers
        for worker in workers[:_CALLERS]:
            worker.tell("end")
            worker.hear()
    finally:
        for worker in workers:
            worker.kill()
            os.waitpid(worker.pid, 0)
        kept.close()


def _kill_group(num_victims: int) -> list[float]:
    took_s: list[float] = []
    with _group(_CALLERS + num_victims) as workers:
        callers = workers[:_CALLERS]
        for rank in range(_CALLERS, len(workers)):
            for caller in callers:
                caller.tell("call", rank)
            for caller in callers:
                caller.hear()
            killed = workers[rank].kill()
            for caller in callers:
                took_s += [when - killed for when in caller.hear()]
    return took_s


def _time_out(count: int) -> list[float]:
    with _group(_CALLERS) as workers:
        workers[0].tell("time out", count)
        late_s: list[float] = workers[0].hear()
        return late_s


# ---- in the workers -----------------------------------------------------------------------------

_held: list[int] = []


def hold(seconds: float) -> None:
    """Block for some seconds; callers time out or lose this worker meanwhile."""
    _held.append(1)
    threading.Event().wait(seconds)


def num_held() -> int:
    """Return how many calls of `hold` have started here."""
    return len(_held)


def _live(rank: int, connection: Connection) -> None:
    from fastdist.distributed import rpc

    rpc.init_rpc(f"w{rank}")
    connection.send("ready")
    while True:
        what, *words = connection.recv()
        if what == "call":
            _call_until_it_dies(f"w{words[0]}", connection)
        elif what == "time out":
            connection.send(_be_late(words[0]))
        else:
            rpc.shutdown(graceful=False)
            connection.send("ended")
            return


def _call_until_it_dies(to: str, connection: Connection) -> None:
    """Start calls of each kind to a worker, and send the times at which they failed."""
    from fastdist.core.errors import WorkerLostError
    from fastdist.distributed import rpc

    rref = rpc.remote(to, hold, (600.0,))
    kinds: list[Callable[[], Any]] = [
        lambda: rpc.rpc_sync(to, hold, (600.0,), timeout=0),
        lambda: rpc.rpc_async(to, hold, (600.0,), timeout=0).wait(),
        lambda: rref.to_here(timeout=0),
    ]
    failed: list[float] = []

    def wait(call: Callable[[], Any]) -> None:
        try:
            call()
        except WorkerLostError:
            failed.append(time.monotonic())

    threads = [threading.Thread(target=wait, args=(kind,)) for kind in kinds]
    for thread in threads:
        thread.start()
    while rpc.rpc_sync(to, num_held) < len(kinds) * _CALLERS:
        pass  # wait until all calls have started on the worker
    connection.send("calling")
    for thread in threads:
        thread.join(_DEADLINE_S)
    assert len(failed) == len(kinds)
    connection.send(failed)


def _be_late(count: int) -> list[float]:
    """Let concurrent calls of two kinds time out; return how late each error was."""
    from fastdist.core.errors import RpcTimeoutError
    from fastdist.distributed import rpc

    late_s: list[float] = []

    def wait(number: int) -> None:
        turn = 0
        while turn < number:
            timeout_s = _TIMEOUTS_MS[turn % len(_TIMEOUTS_MS)] / 1000
            began = time.monotonic()
            try:
                if turn % 2:
                    rpc.rpc_sync("w1", hold, (_HELD_S,), timeout=timeout_s)
                else:
                    rpc.rpc_async("w1", hold, (_HELD_S,), timeout=timeout_s).wait()
            except RpcTimeoutError:
                late_s.append(time.monotonic() - began - timeout_s)
                turn += 1
            # If there is no error, this worker was paused until the answer came: repeat the call.

    threads = [threading.Thread(target=wait, args=(count // _THREADS,)) for _ in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return late_s


if __name__ == "__main__":
    # Imported by name, because other workers cannot look up functions in __main__.
    print(json.dumps(importlib.import_module("bench.distributed.faults").measure(int(sys.argv[1]))))

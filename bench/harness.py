"""How benchmarks are timed: fastdist and the peer alternate within one run, on one thread each.

A benchmark is a module of this folder with one function `run(rounds) -> list[Row]`, usually

    def run(rounds: int) -> list[Row]:
        '''Compare small additions.'''
        import fastdist
        torch = peer_torch()
        ours = stopwatch("x + x", x=fastdist.ones(8, 8))
        peer = stopwatch("x + x", x=torch.ones(8, 8)) if torch else None
        return compare([Case("add 8x8", ours, peer, target=0.65)], rounds)

If figures depend on more facts about the machine than `machine` below returns, the module also has
a function `machine` that returns them by name. If nothing can be measured, `run` prints why and
returns no rows. Both functions are called after `one_thread_each`, so they may import fastdist and
torch. A stopwatch is any function that does the work n times and returns the seconds that the work
took; the work may also run in another process.

Machines are shared and clocks change, so only times measured side by side are compared. Each round
takes one sample of every case. The samples of fastdist and of the peer are adjacent, in alternating
order. A ratio is the median of the rounds' ratios, not the ratio of medians. The garbage collector
stays on, as for users.
"""

from __future__ import annotations

import gc
import importlib
import math
import os
import platform
import statistics
import time
import timeit
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

Stopwatch = Callable[[int], float]

SAMPLE_S = 0.02
DEFAULT_ROUNDS = 25
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
_LIBRARIES = ("numpy", "numba", "pyzmq", "torch", "cupy-cuda12x", "cupy-cuda13x")


@dataclass(frozen=True)
class Amount:
    """The amount of work of one part of a turn, for a rate: 12e9 bytes in a second are 12 GB/s."""

    value: float
    unit: str  # the rate's unit, such as GB/s, in multiples of 1e9


@dataclass(frozen=True)
class Case:
    """One piece of work to time, for fastdist and for the peer if there is one."""

    name: str
    ours: Stopwatch
    peer: Stopwatch | None = None
    target: float | None = None  # the ratio ours / peer to reach
    parts: int = 1  # the number of equal parts of a turn, such as the Nodes of a chain
    number: int | None = None  # turns per sample; found by trial if None
    amount: Amount | None = None
    measures: bool = False  # other cases need its times, so it is timed whatever `choose` selects
    unit: str = "s"  # the unit of the stopwatches' results: "s" or "bytes"


@dataclass(frozen=True)
class Spread:
    """A median with its quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the median and quartiles of two values or more."""
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high)


@dataclass(frozen=True)
class Row:
    """The result of one case; a ratio below 1 means that fastdist is faster."""

    name: str
    ours_s: Spread
    peer_s: Spread | None
    ratio: Spread | None
    target: float | None
    rounds: int
    amount: Amount | None = None
    unit: str = "s"  # the unit of ours_s and peer_s: "s" or "bytes"

    @property
    def missed(self) -> bool:
        """Whether there is a target and the ratio is above it."""
        return (
            self.target is not None and self.ratio is not None and self.ratio.median > self.target
        )


# If this function is set, it times the cases instead of `compare`; see against.py.
_conductor: Callable[[Sequence[Case], int], list[Row]] | None = None


def timed_by(conductor: Callable[[Sequence[Case], int], list[Row]]) -> None:
    """Make `compare` pass its cases to `conductor` from now on, and leave out the peer."""
    global _conductor
    _conductor = conductor


_chosen = ""


def choose(text: str) -> None:
    """Make `compare` time only cases with `text` in their names from now on."""
    global _chosen
    _chosen = text


def chosen() -> str:
    """Return the text given to `choose`; modules may build only the chosen cases."""
    return _chosen


def one_thread_each() -> None:
    """Give BLAS, OpenMP and Numba one thread; works only before NumPy is imported."""
    for variable in _THREAD_VARIABLES:
        os.environ[variable] = "1"


def peer_torch() -> Any:
    """Return torch, set to one thread.

    Return None if torch is not installed, if it is fastdist under torch's name, or if another
    process times the cases.
    """
    if _conductor is not None:
        return None
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError:
        return None
    if "+fastdist" in torch.__version__:
        return None
    torch.set_num_threads(1)
    return torch


def stopwatch(work: str | Callable[[], object], **names: Any) -> Stopwatch:
    """Return a stopwatch for a function, or for a statement that uses the given `names`.

    Note    a statement avoids a function call of 30 ns or more; use one for very short work
    """
    return timeit.Timer(work, setup=gc.enable, globals=names).timeit


class Failed(Exception):
    """A benchmark found errors, or did not complete; `rows` are the rows that it measured."""

    def __init__(self, wrong: str, rows: Sequence[Row]) -> None:
        super().__init__(wrong)
        self.rows = rows


def compare(
    cases: Sequence[Case], rounds: int = DEFAULT_ROUNDS, until_s: float = math.inf
) -> list[Row]:
    """Time all cases in interleaved rounds of one sample each, for at least two rounds.

    After the first two rounds, no round starts once time.monotonic() has reached until_s.
    """
    if _conductor is not None:
        return _conductor(cases, rounds)
    cases = [case for case in cases if _chosen in case.name or case.measures]
    numbers = [case.number or turns_per_sample(case.ours) for case in cases]
    ours: list[list[float]] = [[] for _ in cases]
    peers: list[list[float]] = [[] for _ in cases]
    for turn in range(rounds):
        if turn >= 2 and time.monotonic() >= until_s:
            break
        for case, number, our, peer in zip(cases, numbers, ours, peers, strict=True):
            pair = (
                [(case.ours, our)] if case.peer is None else [(case.ours, our), (case.peer, peer)]
            )
            for watch, samples in pair if turn % 2 else reversed(pair):
                join_freed_memory()
                samples.append(watch(number) / number / case.parts)
    return [row(case, our, peer) for case, our, peer in zip(cases, ours, peers, strict=True)]


def join_freed_memory() -> None:
    """Make glibc merge its small free blocks, which it does before a larger allocation.

    Otherwise a sample pays for blocks that other samples freed. Steps of torch's optimizers freed
    70,000 blocks, which added 10 ms to one of our samples of 20 ms.
    """
    bytearray(4096)


def turns_per_sample(watch: Stopwatch) -> int:
    """Return how many turns take about SAMPLE_S; the trials also warm up.

    Each trial is made twice: the very first turn may load a library, and any turn may be delayed.
    """
    number = 1
    while (seconds := min(watch(number), watch(number))) < SAMPLE_S / 2:
        number *= 2 if seconds > SAMPLE_S / 20 else 10
    return number


def row(case: Case, ours_s: Sequence[float], peer_s: Sequence[float]) -> Row:
    """Return the row of one case, from its samples in the order of rounds."""
    ratio = [our / peer for our, peer in zip(ours_s, peer_s, strict=True)] if peer_s else None
    return Row(
        name=case.name,
        ours_s=Spread.of(ours_s),
        peer_s=Spread.of(peer_s) if peer_s else None,
        ratio=Spread.of(ratio) if ratio else None,
        target=case.target,
        rounds=len(ours_s),
        amount=case.amount,
        unit=case.unit,
    )


def table(rows: Sequence[Row], sides: tuple[str, str] = ("fastdist", "peer")) -> str:
    """Return rows as text: time per turn, quartiles in brackets, rates, and missed targets.

    Empty columns are left out.
    """
    lines = [("case", *sides, "ratio", f"rate ({sides[1]}'s)", "target")]
    for row in rows:
        verdict = "" if row.target is None else f"{row.target:g}{' missed' if row.missed else ''}"
        ratio = "" if row.ratio is None else f"{row.ratio.median:.2f} [{_range(row.ratio, 1.0)}]"
        ours, peer = (_shown(spread, row.unit) for spread in (row.ours_s, row.peer_s))
        lines.append((row.name, ours, peer, ratio, _rates(row), verdict))
    columns = [column for column in zip(*lines, strict=True) if any(column[1:])]
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns]
    return "\n".join("  ".join(line).rstrip() for line in zip(*padded, strict=True))


def _rates(row: Row) -> str:
    if row.amount is None:
        return ""
    ours, peer = (
        "" if spread is None else f"{row.amount.value / spread.median / 1e9:.3g}"
        for spread in (row.ours_s, row.peer_s)
    )
    return f"{ours} {row.amount.unit}" + (f" ({peer})" if peer else "")


def _shown(spread: Spread | None, unit: str) -> str:
    if spread is None:
        return "-"
    return f"{spread.median:,.0f} bytes" if unit == "bytes" else _time(spread)


def _time(spread: Spread) -> str:
    unit, scale = next(
        ((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)) if spread.median >= s),
        ("us", 1e-6),
    )
    return f"{spread.median / scale:.3g} {unit} [{_range(spread, scale)}]"


def _range(spread: Spread, scale: float) -> str:
    return f"{spread.low / scale:.3g}-{spread.high / scale:.3g}"


def machine() -> dict[str, Any]:
    """Return the facts about the machine that figures depend on."""
    # fastdist's version is not read from metadata: a checkout that is not installed has none.
    versions = {"fastdist": importlib.import_module("fastdist").__version__}
    for library in _LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "versions": versions,
    }


def machine_line(facts: dict[str, Any]) -> str:
    """Return the facts of `machine` in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"{facts['cpu']}, {facts['cores']} cores (load {facts['load']}), {facts['system']}, "
        f"Python {facts['python']}, {versions}; one thread each"
    )


def as_json(name: str, rows: Sequence[Row], facts: dict[str, Any]) -> dict[str, Any]:
    """Return a benchmark's rows, and its own facts about the machine, in the format of --json."""
    return {"bench": name, "machine": facts, "rows": [asdict(row) for row in rows]}


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())

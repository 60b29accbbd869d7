"""`python -m bench NAME --against COMMIT`: compares this tree with a commit, in interleaved rounds.

Two processes run this tree's module of the benchmark. One imports fastdist and kernels of this
tree, the other imports both from the commit. With a `--device` that bench simulates, the other
process also imports the commit's bench, because a simulation works only with the kernels for which
it was written. The processes do not measure on their own: when the module calls `harness.compare`,
its cases are sent to the parent process, which requests samples from both processes in interleaved
rounds. So changes of the machine's clock affect both processes equally. A ratio is new / old; torch
is left out.

While a process runs, the addresses of its arrays change the times of some rows by up to 20 %:
layer_norm of 1e5 numbers had ratios of 0.83 and 1.06 in two pairs of processes of the same commit
(AMD EPYC, Zen 3). So rows that look slower are timed again in two more pairs of processes. Only
rows that are slower in all three pairs count as slower.
"""

from __future__ import annotations

import importlib
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import TracebackType
from typing import Any

from bench import catalogue, harness
from bench.catalogue import module_of
from bench.harness import Case, Row, Stopwatch, compare, table

# A case counts as slower if the lower quartile of new / old is above this limit.
LIMIT = 1.03
# Limits for cases that are very short or bound by memory, whose ratio varies more.
_WIDER = {"matmul": 1.05, "mul": 1.05, "exp": 1.05}
_ROOT = Path(__file__).parents[1]
_END_S = 60.0
# The number of additional pairs of processes in which a row must be slower too.
_FURTHER_PAIRS = 2


def measure(names: Sequence[str], commit: str, rounds: int, device: str | None = None) -> list[Row]:
    """Print a table of new against old for each benchmark, and return the rows that are slower.

    Raises  SystemExit if git does not have the commit, or a side cannot run a benchmark
    """
    slower = []
    with tempfile.TemporaryDirectory(prefix="bench-against-") as folder:
        whole = device is not None
        sides = [_side(Path(folder, "new"), None), _side(Path(folder, "old"), commit, whole=whole)]
        for name in names:
            print(f"\n{name} against {commit}, {rounds} rounds, ratio = new / old", flush=True)
            rows = _rows(name, sides, rounds, device)
            print(table(rows, ("new", "old")), flush=True)
            late = {row.name for row in rows if is_slower(row)}
            for _ in range(_FURTHER_PAIRS if late else 0):
                again = _rows(name, sides, rounds, device, late)
                print(f"\nagain, in new processes\n{table(again, ('new', 'old'))}", flush=True)
                rows = [row for row in again if is_slower(row)]
                late = {row.name for row in rows}
                if not late:
                    break
            slower += [row for row in rows if row.name in late]
    return slower


def is_slower(row: Row) -> bool:
    """Return whether three quarters of the ratios are above the limit of this case."""
    return row.ratio is not None and row.ratio.low > _WIDER.get(row.name.partition(" ")[0], LIMIT)


def _side(folder: Path, commit: str | None, *, whole: bool = False) -> Path:
    """Return a new folder with fastdist and kernels of a commit (this tree's if commit is None).

    The folder gets this tree's bench. With `whole` it gets the commit's bench, but this tree's
    against.py and catalogue.py.
    """
    folder.mkdir()
    packages = ("fastdist", "kernels", "bench")
    old = () if commit is None else packages if whole else packages[:2]
    for package in packages[len(old) :]:
        (folder / package).symlink_to(_ROOT / package)
    if commit is None:
        return folder
    archive = subprocess.run(
        ["git", "-C", str(_ROOT), "archive", commit, *old],
        check=False,
        capture_output=True,
    )
    if archive.returncode:
        raise SystemExit(f"--against {commit}: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    if whole:  # both processes must use the same protocol
        for file in (__file__, catalogue.__file__):
            shutil.copy(file, folder / "bench")
    return folder


def _rows(
    name: str,
    sides: Sequence[Path],
    rounds: int,
    device: str | None,
    chosen: Collection[str] | None = None,
) -> list[Row]:
    """Return the rows of a benchmark: all, or only those with the chosen names."""
    rows: list[Row] = []
    new_side, old_side = (_Player(name, side, rounds, device) for side in sides)
    with new_side as new, old_side as old:
        while True:
            offer, known_offer = new.offer(), old.offer()
            if offer is None or known_offer is None:
                break
            (offered, wanted), (known, _) = offer, known_offer
            places = {title: place for place, (title, _, _) in enumerate(known)}
            cases = [
                Case(title, new.watch(place), old.watch(places[title]), number=number, parts=parts)
                for place, (title, number, parts) in enumerate(offered)
                if title in places and (chosen is None or title in chosen)
            ]
            left_out = [title for title, _, _ in offered if title not in places]
            if left_out and chosen is None:
                print(f"not in the old one: {', '.join(left_out)}", flush=True)
            rows += compare(cases, wanted)
            new.go_on()
            old.go_on()
    return rows


class _Player:
    """A process that runs a benchmark, and takes samples on request."""

    def __init__(self, name: str, folder: Path, rounds: int, device: str | None) -> None:
        self._called = f"{name}, {folder.name}"
        self._here, there = Pipe()
        # Started in its folder, where -m looks for modules before it finds an installed fastdist.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.against", name, str(rounds), str(there.fileno())]
            + [harness.chosen()]
            + ([device] if device else []),
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            pass_fds=[there.fileno()],
        )
        there.close()

    def _hear(self) -> Any:
        try:
            return self._here.recv()
        except EOFError:
            raise SystemExit(
                f"{self._called}: its process ended with {self._process.wait()}; what it said "
                "stands above"
            ) from None

    def offer(self) -> tuple[list[tuple[str, int | None, int]], int] | None:
        """Return (name, turns per sample, parts) of each case, and the rounds; None at the end."""
        offered: tuple[list[tuple[str, int | None, int]], int] | None = self._hear()
        return offered

    def watch(self, place: int) -> Stopwatch:
        """Return the stopwatch of the case at a position."""

        def seconds(turns: int) -> float:
            self._here.send((place, turns))
            took: float = self._hear()
            return took

        return seconds

    def go_on(self) -> None:
        """Let the benchmark continue with its next cases."""
        self._here.send(None)

    def __enter__(self) -> _Player:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._here.close()
        try:
            self._process.wait(_END_S if kind is None else 0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _play(name: str, rounds: int, link: Connection, only: str, *device: str) -> None:
    """Run a benchmark whose cases are timed by the process at the other end of link."""

    def offer(cases: Sequence[Case], rounds: int) -> list[Row]:
        link.send(([(case.name, case.number, case.parts) for case in cases], rounds))
        samples: list[list[float]] = [[math.nan, math.nan] for _ in cases]  # some are not timed
        while (asked := link.recv()) is not None:
            place, turns = asked
            case = cases[place]
            seconds = case.ours(turns)
            samples[place].append(seconds / turns / case.parts)
            link.send(seconds)
        return [harness.row(case, ours, []) for case, ours in zip(cases, samples, strict=True)]

    harness.one_thread_each()
    importlib.import_module("fastdist")
    harness.timed_by(offer)
    if only:  # the commit's bench may not have `choose`
        harness.choose(only)
    importlib.import_module(module_of(name)).run(rounds, *device)
    link.send(None)


if __name__ == "__main__":
    _play(sys.argv[1], int(sys.argv[2]), Connection(int(sys.argv[3])), *sys.argv[4:])

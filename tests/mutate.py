"""Mutation testing: change a package in small ways, run its tests, and list the undetected changes.

Usage: python -m tests.mutate ROOM [--breaks 200] [--seed 0] [--jobs 2] [--only TEXT]
                              [--without TEXT] [--within SECONDS]
       python -m tests.mutate PACKAGE --draw 300 [--seed 0] ...     (tests/mutate_draw.py)

A room is a package or module together with its tests. A mutant is one small change of the package
or module, made in a copy of the tree; `--breaks` is the number of mutants to try. A first run of
the tests records which lines each test runs. After that, only tests that run the changed lines are
tried, until one fails twice or time is up. The first tests tried are close to the mutant, are
quick, or have detected other mutants near it. Results are kept in the folder .mutate, so an
interrupted run resumes. Mutants that no test can detect are explained in
tests/mutants_explained.toml; an explanation that matches no mutant is an error.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Queue
from typing import Final

from tests import mutate_draw
from tests.mutants import breaks_of
from tests.mutants_drawn import Mutant, draw, explanations
from tests.mutate_copy import Copy
from tests.mutate_log import Lines, Log, Verdict, sources_of

ROOT: Final = Path(__file__).resolve().parents[1]
EXPLAINED: Final = ROOT / "tests" / "mutants_explained.toml"


@dataclass(frozen=True)
class Room:
    """A package or module of the product, and its tests."""

    folder: str
    tests: tuple[str, ...]
    without: str = ""  # test files whose names contain this are left out
    within_s: float = math.inf  # time limit for all tests that are tried against one mutant

    def test_files(self, root: Path) -> list[str]:
        """Return the test files."""
        found = set[Path]()
        for name in self.tests:
            path = root / name
            found |= {path} if path.is_file() else set(path.rglob("test_*.py"))
        names = [path.relative_to(root).as_posix() for path in sorted(found)]
        return [name for name in names if not self.without or self.without not in name]


_DISTRIBUTED: Final = "tests/distributed/autograd"
_AUTOGRAD: Final = (
    *("tests/engine", "tests/graph", "tests/autograd", "tests/profiler"),
    # The tests of one worker's part of distributed passes.
    *(f"{_DISTRIBUTED}/test_{name}.py" for name in ("engine", "passes", "arrivals")),
    *(f"{_DISTRIBUTED}/{name}.py" for name in ("devices/test_devices", "test_root_gradients")),
)
# Tests of leaves, their gradients and grad modes through the Tensor API, and of sparse gradients.
_LEAVES: Final = (
    *("tests/tensor", "tests/namespace", "tests/ops/sparse/test_rules.py"),
    *("tests/nn/test_sparse_embedding.py", "tests/optim/test_sparse_steps.py"),
)
_GROUP_JOBS: Final = "tests/distributed/process_group/test_jobs.py"
_COLLECTIVE_NAMES: Final = "tests/distributed/test_collective_names.py"
_GROUPS: Final = {
    "links": ("tests/distributed/links",),
    "process_group": ("tests/distributed/process_group", _COLLECTIVE_NAMES),
    "data_parallel": ("tests/distributed/data_parallel", _GROUP_JOBS),
    "nn": ("tests/distributed/nn",),
    "device_mesh.py": ("tests/distributed/test_device_mesh.py",),
    "zero_optimizer.py": ("tests/distributed/test_zero_optimizer.py",),
    "_functional_collectives.py": ("tests/distributed/nn/test_collective.py", _COLLECTIVE_NAMES),
}
ROOMS: Final = {
    "engine": Room("fastdist/engine", _AUTOGRAD),
    "graph": Room("fastdist/graph", (*_AUTOGRAD, *_LEAVES)),
    "distributed/autograd": Room(
        # One test covers the DEBUG lines of autograd and of rpc, because they share a log.
        "fastdist/distributed/autograd",
        (_DISTRIBUTED, "tests/distributed/explain", "tests/distributed/rpc/test_debug_log.py"),
    ),
    "distributed/explain": Room("fastdist/distributed/explain", ("tests/distributed/explain",)),
    "rpc": Room("fastdist/distributed/rpc", ("tests/distributed/rpc",)),
    **{
        f"distributed/{name}": Room(f"fastdist/distributed/{name}", tests)
        for name, tests in _GROUPS.items()
    },
    "nn/parallel": Room(
        "fastdist/nn/parallel", (*_GROUPS["data_parallel"], "tests/nn/test_parallel.py")
    ),
}


def mutants_of(root: Path, room: Room) -> list[Mutant]:
    """Return all mutants of a room."""
    found = []
    for path in sources_of(root, room.folder):
        source = path.read_bytes()
        name = path.relative_to(root).as_posix()
        found += [Mutant(name, change, *change.lines(source)) for change in breaks_of(source)]
    return found


def look_at(
    root: Path, room: Room, drawn: Sequence[Mutant], jobs: int
) -> Iterator[tuple[Mutant, Verdict]]:
    """Yield each mutant with its verdict.

    Raises  SystemExit if no test passes in the unchanged tree
    """
    log = Log(root, room.folder, room.test_files(root), room.within_s)
    lines, unknown = log.lines()
    known = log.verdicts()
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder, ThreadPoolExecutor(jobs) as pool:
        copies: Queue[Copy] = Queue()
        for number in range(jobs):
            copies.put(Copy(root, Path(folder) / str(number)))

        def look_at_lines(file: str) -> str:
            with _taken_from(copies) as copy:
                found, output = copy.look_at_lines(room.folder, file)
            if output:
                _say(f"{file}, of which not all pass without a break:\n{output}")
            lines.add(found)
            log.add_lines(found)
            return output

        def look(mutant: Mutant) -> Verdict:
            if (verdict := known.get(log.name(mutant))) is None:
                verdict = _look(copies, lines, mutant, room.within_s)
                log.add_verdict(mutant, verdict)
            if verdict.killed:
                lines.add_kill(mutant, verdict.word)
            return verdict

        try:
            outputs = list(pool.map(look_at_lines, unknown))
            if not lines.seconds:
                said = "".join(outputs)
                raise SystemExit(f"no test of {room.folder} passes without a break:\n{said}")
            files = sorted({test.partition("::")[0] for test in lines.seconds})
            for copy in list(copies.queue):
                copy.warm_up(files)
            yield from zip(drawn, pool.map(look, drawn), strict=True)
        finally:
            pool.shutdown(cancel_futures=True)
            for copy in list(copies.queue):
                copy.cool_down()


def _look(copies: Queue[Copy], lines: Lines, mutant: Mutant, within_s: float) -> Verdict:
    all_tests = lines.tests_of(mutant)
    if not all_tests:
        return Verdict(False, "no test runs it")
    tests = lines.first_of(all_tests, within_s)
    some = "" if len(tests) == len(all_tests) else f", and {len(all_tests) - len(tests)} others"
    with _taken_from(copies) as copy:
        begin = time.monotonic()
        killer, unsure = copy.killer(mutant, lines, tests)
        seconds = round(time.monotonic() - begin, 2)
    if unsure:
        _say(f"failed, but not again, in {mutant.describe()}\n    " + "\n    ".join(unsure))
    return Verdict(bool(killer), killer or f"{len(tests)} tests run it{some}", seconds)


@contextmanager
def _taken_from(copies: Queue[Copy]) -> Iterator[Copy]:
    copy = copies.get()
    try:
        yield copy
    finally:
        copies.put(copy)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Try mutants of a room. Return the number of survivors without an explanation, plus the number
    of explanations that match no survivor.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("room", help=f"one of {', '.join(ROOMS)}; with --draw, any package")
    parser.add_argument("--breaks", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--seed", type=int, default=0, help="which of them (default 0)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default 2)")
    parser.add_argument("--only", default="", help="breaks whose file and function hold this text")
    parser.add_argument("--without", default="", help="leave out files of tests that are named so")
    parser.add_argument(
        "--within", type=float, default=math.inf, help="seconds of tests for a break (default all)"
    )
    mutate_draw.add_arguments(parser)
    given = parser.parse_args(arguments)
    if given.draw is not None or given.again is not None:
        root = ROOT if given.tree is None else given.tree.resolve()
        try:
            run = mutate_draw.run_of(given, root)
        except ValueError as error:
            parser.error(str(error))
        return mutate_draw.look(root, run, explanations(EXPLAINED, given.room))
    if given.room not in ROOMS:
        parser.error(f"{given.room} has no room of tests: say --draw")
    room = replace(ROOMS[given.room], without=given.without, within_s=given.within)
    mutants = mutants_of(ROOT, room)
    why = explanations(EXPLAINED, given.room)
    in_vain = why.keys() - {mutant.key for mutant in mutants}
    for file, within, old, new in sorted(in_vain):
        _say(f"explained in vain, no such break: {file} in {within}\n    - {old}\n    + {new}")
    chosen = [one for one in mutants if given.only in f"{one.file} {one.change.within}"]
    drawn = draw(ROOT, chosen, given.breaks, given.seed)
    _say(f"{len(drawn)} of {len(chosen)} breaks of {room.folder}, seed {given.seed}")
    num_looked = num_explained = num_alive = 0
    seconds = 0.0
    try:
        for mutant, verdict in look_at(ROOT, room, drawn, given.jobs):
            num_looked += 1
            seconds += verdict.seconds
            if not verdict.killed and mutant.key in why:
                num_explained += 1
            elif not verdict.killed:
                num_alive += 1
                _say(f"{mutant.describe()}\n    survives: {verdict.word}, {verdict.seconds:.0f} s")
    except KeyboardInterrupt:
        _say(f"stopped after {num_looked} of them")
    total = num_looked - num_explained
    killed = total - num_alive
    _say(
        f"killed {killed} of {total} ({killed / max(total, 1):.1%}); {num_explained} explained; "
        f"{seconds / max(num_looked, 1):.1f} s each"
    )
    return num_alive + len(in_vain)


if __name__ == "__main__":
    sys.exit(min(main(), 1))

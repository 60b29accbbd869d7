"""The results of tests.mutate, in a folder of the checkout: an interrupted run resumes.

The recorded lines of a test file are valid while the test file is unchanged. If a source file of
the room has changed since, only the fact that a test runs the source file is used. A caught mutant
is not tried again while its source file is unchanged. A survivor is tried again after the room or
one of its tests has changed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.mutants_drawn import Mutant

FOLDER: Final = ".mutate"
_TO_START_S: Final = 3.0
AT_IMPORT: Final = ""  # in place of a test: its lines run when modules are imported

# For each test, the lines of each source file that it runs. For each test file, the lines that its
# fixtures run.
Ran = dict[str, dict[str, list[int]]]


@dataclass(frozen=True)
class TestFile:
    """The results of the passing tests of a test file."""

    __test__ = False  # so that pytest does not collect this class

    file: str
    seconds: dict[str, float]
    ran: Ran
    has_processes: bool


@dataclass
class Lines:
    """The tests that run each line of a room, the time of each test, and the mutants it caught."""

    seconds: dict[str, float] = field(default_factory=dict)
    by_line: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    by_file: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    changed: set[str] = field(default_factory=set)  # source files whose lines are out of date
    with_processes: set[str] = field(default_factory=set)  # test files that start processes
    # By (file, function) of the mutant, and by (file, "") for all mutants of a file.
    kills: dict[tuple[str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, found: TestFile, changed: Container[str] = ()) -> None:
        """Add the results of a test file. If a source file is in `changed`, record only that tests
        run it, without its lines.
        """
        self.seconds |= found.seconds
        if found.has_processes:
            self.with_processes.add(found.file)
        for test, files in found.ran.items():
            for file, lines in files.items():
                self.by_file[file].add(test)
                if file in changed:
                    self.changed.add(file)
                    continue
                for line in lines:
                    self.by_line[file, line].add(test)

    def add_kill(self, mutant: Mutant, test: str) -> None:
        """Record a test that caught a mutant."""
        for within in {"", mutant.change.within}:
            self.kills[mutant.file, within].update({test: 1, _file_of(test): 1})

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Return the tests that may catch a mutant, those with the best chance per second first.

        These are the tests that run the mutant's lines. If the lines run at import, other tests of
        the same files are added, and then all tests. The tests of a file stay together, since they
        may share workers.
        """
        found = self._that_run(mutant)
        if AT_IMPORT in found or mutant.file in self.changed:
            found = found | self.by_file[mutant.file]
        # A test may detect a changed default or constant without running a line of the file.
        others = self.seconds if AT_IMPORT in found else ()
        by_file: dict[str, list[str]] = defaultdict(list)
        for test in self.seconds:
            if test in found or _file_of(test) in found or test in others:
                by_file[_file_of(test)].append(test)
        # The tests that run the lines themselves, and the files of these tests. For all other
        # tests, a fixture runs the lines.
        ran = {name for one in found if "::" in one for name in (one, _file_of(one))}
        costs = {}
        for file, tests in by_file.items():
            each = {test: self.seconds[test] / self._chance(mutant, test, ran) for test in tests}
            tests.sort(key=each.__getitem__)
            seconds = self.total(tests) / len(tests)
            # The tests of a file share processes, which start when its first test runs.
            seconds += _TO_START_S if file in self.with_processes else 0.01
            costs[file] = seconds / self._chance(mutant, file, ran)
        return [test for file in sorted(costs, key=costs.__getitem__) for test in by_file[file]]

    def _that_run(self, mutant: Mutant) -> set[str]:
        change, found = mutant.change, set[str]()
        # Python reports no line event for a jump such as `break`, so add the line before it.
        for line in range(change.first - (change.kind == "drop"), change.last + 1):
            found |= self.by_line.get((mutant.file, line), set())
        return found

    def is_import(self, mutant: Mutant) -> bool:
        """Return whether a mutant's lines run when a module is imported."""
        return AT_IMPORT in self._that_run(mutant)

    def first_of(self, tests: Sequence[str], within_s: float) -> list[str]:
        """Return the first tests that together fit into the given time, but at least one test."""
        spent, files, found = 0.0, set[str](), list[str]()
        for test in tests:
            starts = _file_of(test) in self.with_processes and _file_of(test) not in files
            spent += self.seconds[test] + _TO_START_S * starts
            if found and spent > within_s:
                break
            files.add(_file_of(test))
            found.append(test)
        return found

    def _chance(self, mutant: Mutant, test: str, ran: set[str]) -> float:
        """Return a weight that grows with the chance of a test or test file to catch the mutant."""
        near = self.kills[mutant.file, mutant.change.within][test]
        far = self.kills[mutant.file, ""][test]
        of_its_own = f"test_{Path(mutant.file).stem}.py" in test
        return (1 + 10 * near + 3 * far + 5 * of_its_own) * (10 if test in ran else 1)

    def total(self, tests: Sequence[str]) -> float:
        """Return the total time of some tests."""
        return sum(self.seconds[test] for test in tests)


def _file_of(test: str) -> str:
    return test.partition("::")[0]


@dataclass(frozen=True)
class Verdict:
    """The verdict on a mutant: the test that caught it, or "" and a note on the tests tried."""

    killed: bool
    word: str
    seconds: float = 0.0


class Log:
    """The stored results of one room."""

    def __init__(
        self, root: Path, folder: str, test_files: Sequence[str], within_s: float = math.inf
    ) -> None:
        self._lock = Lock()
        self._folder = root / FOLDER / folder.replace("/", "-")
        self._folder.mkdir(parents=True, exist_ok=True)
        sources = sources_of(root, folder)
        self._hashes = {path.relative_to(root).as_posix(): _hash([path]) for path in sources}
        self._of_test = {name: _hash([root / name]) for name in test_files}
        self._of_all = _hash([*sources, *(root / name for name in test_files)])
        if within_s != math.inf:
            self._of_all += f" within {within_s} s"  # with more time, survivors may be caught

    # ---- lines ----------------------------------------------------------------------------------

    def lines(self) -> tuple[Lines, list[str]]:
        """Return the recorded lines of tests, and the test files without a record."""
        known: dict[str, tuple[TestFile, set[str]]] = {}
        for one in self._read("lines"):
            if self._of_test.get(one["file"]) == one.pop("hash"):
                before: dict[str, str] = one.pop("sources")
                changed = {name for name, was in before.items() if was != self._hashes.get(name)}
                known[one["file"]] = TestFile(**one), changed
        lines = Lines()
        for found, changed in known.values():
            lines.add(found, changed)
        return lines, [name for name in self._of_test if name not in known]

    def add_lines(self, found: TestFile) -> None:
        """Store the results of a test file."""
        told = {"hash": self._of_test[found.file], "sources": self._hashes, **vars(found)}
        self._write("lines", told)

    # ---- verdicts -------------------------------------------------------------------------------

    def verdicts(self) -> dict[tuple[Any, ...], Verdict]:
        """Return the stored verdicts, by the `name` of each mutant; omit outdated survivors."""
        found = {}
        for one in self._read("verdicts"):
            if one["killed"] or one["hash"] == self._of_all:
                verdict = Verdict(one["killed"], one["word"], one["seconds"])
                found[tuple(one["name"])] = verdict
            else:
                found.pop(tuple(one["name"]), None)
        return found

    def name(self, mutant: Mutant) -> tuple[Any, ...]:
        """Return a mutant's key, which changes when the source file changes."""
        change = mutant.change
        return mutant.file, self._hashes[mutant.file], change.start, change.end, change.text

    def add_verdict(self, mutant: Mutant, verdict: Verdict) -> None:
        """Record the verdict on a mutant."""
        told = {"name": self.name(mutant), "hash": self._of_all, **vars(verdict)}
        self._write("verdicts", told)

    def _read(self, what: str) -> Iterable[dict[str, Any]]:
        path = self._folder / f"{what}.jsonl"
        for text in path.read_text().splitlines() if path.exists() else ():
            try:
                yield json.loads(text)
            except ValueError:
                continue  # an interrupted run left this line incomplete

    def _write(self, what: str, told: dict[str, Any]) -> None:
        with self._lock, (self._folder / f"{what}.jsonl").open("a") as file:
            # Begin with a newline, since an interrupted run may have left a line incomplete.
            file.write(f"\n{json.dumps(told)}\n")


def sources_of(root: Path, folder: str) -> list[Path]:
    """Return the source files of a room, which is a folder or a module."""
    top = root / folder
    return sorted(top.rglob("*.py")) if top.is_dir() else [top]


def _hash(paths: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()[:16]

"""A temporary copy of the tree, in which tests.mutate makes one mutant at a time and runs tests."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests import mutate_lines, mutate_warm
from tests.mutate_log import Lines, TestFile

if TYPE_CHECKING:
    from tests.mutants_drawn import Mutant

_COPIED: Final = ("fastdist", "kernels", "bench", "tests", "pyproject.toml")
_CACHE: Final = ".kernel-cache"
_PYTEST: Final = ("-n", "0", "-q", "-p", "no:cacheprovider", "-p", "tests.mutate_lines")
_IN_CHILDREN: Final = f"""
import os
if {mutate_lines.MOMENT!r} in os.environ:
    from tests.mutate_lines import start_in_child
    start_in_child()
"""
_TO_SEE_LINES_S: Final = 1800.0
_AT_LEAST_S: Final = 20.0
_FIRST_S: Final = 10.0  # time limit of the first tests; others are collected later


class Copy:
    """A copy of the tree."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
        for name in _COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, folder / name, ignore=skip)
            elif (root / name).exists():
                shutil.copy(root / name, folder)
        # The tree may be an earlier commit, whose mutation tools differ from these.
        for path in Path(__file__).parent.glob("muta*.py"):
            shutil.copy(path, folder / "tests")
        (root / _CACHE).mkdir(exist_ok=True)
        (folder / _CACHE).symlink_to(root / _CACHE)
        self._stamp = int(time.time()) - 1_000_000
        self._warm: Warm | None = None
        self._not_in_forks: set[str] = set()

    def run(self, arguments: Sequence[str], within_s: float, **told: str) -> tuple[int | None, str]:
        """Run pytest; return its exit code (None after a timeout) and its output."""
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *_PYTEST, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder), **told},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=within_s)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, "the time was up"
        finally:
            self._end(process)

    def _end(self, process: subprocess.Popen[str]) -> None:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # also kills processes that tests left
        except ProcessLookupError:
            return
        finally:
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    # ---- the lines that each test runs ----------------------------------------------------------

    def look_at_lines(self, folder: str, file: str) -> tuple[TestFile, str]:
        """Run one test file. Return the lines in `folder` that its passing tests run, and the
        output of pytest if any test fails.
        """
        notes, children = self.folder / "notes", self.folder / "sitecustomize.py"
        notes.write_text("")
        children.write_text(_IN_CHILDREN)
        top = self.folder / folder
        looked_at = f"{top}{os.sep}" if top.is_dir() else str(top)
        told = {mutate_lines.FOLDER: looked_at, mutate_lines.NOTES: str(notes)}
        code, output = self.run([file], _TO_SEE_LINES_S, **told)
        children.unlink()
        seconds: dict[str, float] = {}
        moments: dict[int, str] = {}
        ran: dict[str, dict[str, set[int]]] = {}
        has_processes = False
        for text in notes.read_text().splitlines():
            entry: dict[str, Any] = json.loads(text)
            if "test" in entry:
                seconds[entry["test"]] = entry["seconds"]
            elif "of" in entry:
                moments[entry["moment"]] = entry["of"]
            else:
                of_test = ran.setdefault(moments[entry["moment"]], {})
                has_processes |= "process" in entry
                for path, line in entry["lines"]:
                    name = Path(path).relative_to(self.folder).as_posix()
                    of_test.setdefault(name, set()).add(line)
        sorted_lines = {
            test: {name: sorted(lines) for name, lines in files.items()}
            for test, files in ran.items()
            if test in seconds or "::" not in test
        }
        found = TestFile(file, seconds, sorted_lines, has_processes)
        return found, "" if code in (0, 5) else output  # 5: all tests are deselected

    # ---- mutants --------------------------------------------------------------------------------

    def killer(self, mutant: Mutant, lines: Lines, tests: Sequence[str]) -> tuple[str, list[str]]:
        """Return the first test that detects a mutant by failing or timing out, or "" if no test
        does. Also return the unsure tests.

        An unsure test failed once, but passed when it and the tests before it were run again.

        Note    only tests with separate processes are run again: on a busy machine these may fail
                without a mutant
        """
        path, unsure = self.folder / mutant.file, list[str]()
        source = path.read_bytes()
        try:
            self.write(path, mutant.change.of(source))
            killer, is_sure = self._warm_killer(mutant, source, lines, tests)
            if is_sure:
                return killer, unsure
            for some in _first_and_rest(lines, tests):
                left = some
                while left and (killer := self._first_to_fail(lines, left)):
                    end = left.index(killer) + 1
                    is_sure = killer.partition("::")[0] not in lines.with_processes
                    if is_sure or self._first_to_fail(lines, left[:end]):
                        return killer, unsure
                    unsure.append(killer)
                    left = left[end:]
            return "", unsure
        finally:
            self.write(path, source)

    def warm_up(self, files: Sequence[str]) -> None:
        """Collect the tests of files in a process that then runs them for many mutants."""
        self.cool_down()
        self._warm = Warm(self.folder, files)

    def cool_down(self) -> None:
        """Release the warm processes."""
        if self._warm is not None:
            self._warm.close()
            self._warm = None

    def _warm_killer(
        self, mutant: Mutant, source: bytes, lines: Lines, tests: Sequence[str]
    ) -> tuple[str, bool]:
        """Return the failing test found by the warm process, and whether the result is final."""
        some = [test for test in tests if test.partition("::")[0] not in self._not_in_forks]
        if self._warm is None or not some:
            return "", False
        killer = self._warm.killer(mutant, source, lines, some)
        if not killer:
            # Objects that were made when modules were imported come from the unchanged function.
            is_sure = killer is not None and len(some) == len(tests)
            return "", is_sure and not lines.is_import(mutant)
        if self._first_to_fail(lines, [killer]):
            return killer, True
        # The fork may have caused the failure, so tests of this file do not run in forks again.
        self._not_in_forks.add(killer.partition("::")[0])
        return killer, False

    def _first_to_fail(self, lines: Lines, tests: Sequence[str]) -> str:
        chosen, begun = self.folder / "chosen_tests", self.folder / "begun"
        begun.write_text(tests[0])
        chosen.write_text(json.dumps(_bounds(lines, tests)))
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        told = {mutate_lines.CHOSEN: str(chosen), mutate_lines.BEGUN: str(begun)}
        code, output = self.run(["-x", *files], _bound(lines, tests), **told)
        if code not in (0, 1, 2, 3, 4, None):
            # Exit code 5 means that nothing was collected. A negative code is a signal: the mutant
            # made C code crash.
            assert code is not None and code < 0, f"pytest ended with {code}:\n{output}"
        return "" if code == 0 else begun.read_text()

    def write(self, path: Path, source: bytes) -> None:
        """Replace a source file of the copy."""
        path.write_bytes(source)
        # Python checks the modification time of a source file to decide whether the compiled file
        # is current, so each version needs a different time.
        self._stamp += 1
        os.utime(path, (self._stamp, self._stamp))


class Warm:
    """A process that has collected tests; for each mutant it forks a child that runs some."""

    def __init__(self, folder: Path, files: Sequence[str]) -> None:
        self._folder = folder
        here, theirs = socket.socketpair()
        told = {mutate_warm.SERVE: str(theirs.fileno()), "PYTHONPATH": str(folder)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *_PYTEST, "-p", "tests.mutate_warm", "-x", *files],
            cwd=folder,
            env={**os.environ, **told},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        both = here.detach()
        self._requests, self._answers = os.fdopen(both, "w", buffering=1), os.fdopen(os.dup(both))
        self._is_there = self._answers.readline() == "ready\n"

    def killer(
        self, mutant: Mutant, source: bytes, lines: Lines, tests: Sequence[str]
    ) -> str | None:
        """Return the first test that fails or times out, or "" if none does. Return None if this
        process cannot replace the changed code.
        """
        if not self._is_there:
            return None
        begun = self._folder / "begun"
        begun.write_text("")
        request = {
            "path": str(self._folder / mutant.file),
            "before": source.decode(),
            "after": mutant.change.of(source).decode(),
            "within": mutant.change.within,
            "bounds": _bounds(lines, tests),
            "within_s": _bound(lines, tests),
            "begun": str(begun),
        }
        try:
            self._requests.write(f"{json.dumps(request)}\n")
            answer = self._answers.readline()
        except ConnectionError:
            answer = ""
        self._is_there = bool(answer)
        if answer.strip() in ("", str(mutate_warm.UNABLE)):
            return None
        return "" if answer.strip() == "0" else begun.read_text()

    def close(self) -> None:
        """End the process."""
        with suppress(ConnectionError):
            self._requests.close()
        self._answers.close()
        self._process.wait()


def _bounds(lines: Lines, tests: Sequence[str]) -> dict[str, float]:
    return {test: _AT_LEAST_S + 3 * lines.seconds[test] for test in tests}


def _bound(lines: Lines, tests: Sequence[str]) -> float:
    """Return the time limit of all tests together."""
    return _AT_LEAST_S + 3 * lines.total(tests)


def _first_and_rest(lines: Lines, tests: Sequence[str]) -> list[Sequence[str]]:
    """Split off the tests of the first files, which detect most mutants. They finish before pytest
    could collect all tests of a room.
    """
    spent, files = 0.0, set[str]()
    for place, test in enumerate(tests):
        file = test.partition("::")[0]
        if spent > _FIRST_S and file not in files:
            return [tests[:place], tests[place:]]
        files.add(file)
        spent += lines.seconds[test]
    return [tests]

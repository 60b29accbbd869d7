"""A pytest plugin for tests.mutate: records the lines that each test runs, or runs chosen tests."""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import pytest

# These are environment variables, so that processes started by tests inherit them. Their names
# begin with PYTEST because the test setup keeps such variables.
FOLDER = "PYTEST_MUTATE_FOLDER"  # the folder whose lines are recorded
NOTES = "PYTEST_MUTATE_NOTES"  # the file of the records: one JSON object per line
CHOSEN = "PYTEST_MUTATE_CHOSEN"  # JSON: the ids of the tests to run, and their limits in seconds
BEGUN = "PYTEST_MUTATE_BEGUN"  # the file with the id of the test that started last
MOMENT = "PYTEST_MUTATE_MOMENT"  # for child processes: the file with the current moment

Line = tuple[str, int]
# If a function is called this many times in one test without a new line, its lines are not traced.
_CALLS_TO_SEE_ALL: Final = 3_000


class Tracer:
    """Records which lines of a folder run, in all threads."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.seen: set[Line] = set()
        self._calls: Counter[CodeType] = Counter()

    def start(self) -> None:
        """Start tracing."""
        threading.settrace(self._call)
        sys.settrace(self._call)

    def begin_anew(self) -> None:
        """Forget the lines seen so far."""
        self.seen = set()
        self._calls = Counter()

    def _call(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(self._folder):
            return None
        self.keep_up()
        if event == "call":  # other events may come from a tracer that forwards
            self._calls[code] += 1
        return self._line if self._calls[code] < _CALLS_TO_SEE_ALL else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and frame.f_lineno is not None:  # None: no source line
            self.keep_up()
            line = (frame.f_code.co_filename, frame.f_lineno)
            if line not in self.seen:
                self._calls[frame.f_code] = 0
                self.seen.add(line)
                self.note(line)
        return self._line

    def keep_up(self) -> None:
        """Do nothing; `ChildTracer` forgets its lines when another test has started."""

    def note(self, line: Line) -> None:
        """Do nothing; `ChildTracer` writes each line when it first runs."""


class ChildTracer(Tracer):
    """Writes each line when it first runs, because its process may be killed at any moment."""

    def __init__(self, folder: str, notes: str, moment: str) -> None:
        super().__init__(folder)
        self._notes = os.open(notes, os.O_WRONLY | os.O_APPEND)
        with open(moment, "rb") as file:
            self._now = memoryview(mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)).cast("q")
        self._moment = self._now[0]

    def keep_up(self) -> None:
        """Forget the recorded lines if the test process has started another moment."""
        if self._now[0] != self._moment:
            self._moment = self._now[0]
            self.begin_anew()

    def note(self, line: Line) -> None:
        """Write the line with the current moment of the test process."""
        told = {"moment": self._moment, "lines": [line], "process": os.getpid()}
        os.write(self._notes, f"{json.dumps(told)}\n".encode())


def start_in_child() -> None:
    """In a process that a test starts, record the lines that run, and the moment of the test."""
    ChildTracer(os.environ[FOLDER], os.environ[NOTES], os.environ[MOMENT]).start()


class Noting:
    """Record for each passing test how long it took and which lines it ran.

    Time is divided into moments. The call of a test is one moment. A fixture that runs before or
    after it may also serve other tests of the file, so its lines are recorded for the file.
    """

    def __init__(self, folder: str, notes: str) -> None:
        self._tracer = Tracer(folder)
        self._notes = open(notes, "a", buffering=1)  # noqa: SIM115  # open as long as the process
        moment = f"{notes}.moment"
        Path(moment).write_bytes(bytes(8))
        with open(moment, "r+b") as file:
            self._now = memoryview(mmap.mmap(file.fileno(), 8)).cast("q")
        os.environ[MOMENT] = moment
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        # Modules are imported only once, so lines that run at import count for all tests.
        self._write({"moment": 0, "of": ""})
        self._tracer.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._begin(item.nodeid.partition("::")[0])
        result = yield
        self._begin(item.nodeid.partition("::")[0])
        if item.nodeid not in self._failed:
            self._write({"test": item.nodeid, "seconds": self._seconds[item.nodeid]})
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self._begin(item.nodeid)
        try:
            return (yield)
        finally:
            self._begin(item.nodeid.partition("::")[0])

    def _begin(self, what: str) -> None:
        """Write the lines seen in the current moment, and start the next moment, of `what`."""
        self._write({"moment": self._now[0], "lines": sorted(self._tracer.seen)})
        self._tracer.begin_anew()
        self._write({"moment": self._now[0] + 1, "of": what})
        self._now[0] += 1
        self._tracer.start()

    def _write(self, told: dict[str, Any]) -> None:
        self._notes.write(f"{json.dumps(told)}\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before = self._seconds.get(report.nodeid, 0.0)
        self._seconds[report.nodeid] = before + report.duration
        if not report.passed:
            self._failed.add(report.nodeid)


class Choosing:
    """Runs only the chosen tests, in their given order; a test over its time limit ends the run."""

    def __init__(self, chosen: str, begun: str) -> None:
        self._bounds: dict[str, float] = dict(json.loads(Path(chosen).read_text()))
        self._place = {nodeid: place for place, nodeid in enumerate(self._bounds)}
        self._begun = Path(begun)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = [item for item in items if item.nodeid in self._place]
        items[:] = sorted(kept, key=lambda item: self._place[item.nodeid])
        for item in items:
            # The timeout uses a signal, because the leak check would report a timeout's thread.
            bound = pytest.mark.timeout(self._bounds[item.nodeid], method="signal")
            item.add_marker(bound, append=False)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._begun.write_text(nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Read the environment variables before any module of fastdist is imported."""
    told = os.environ
    # A shell starts background jobs with SIGINT ignored, and the tests would inherit this setting.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if NOTES in told:
        early_config.pluginmanager.register(Noting(told[FOLDER], told[NOTES]))
    if CHOSEN in told:
        early_config.pluginmanager.register(Choosing(told[CHOSEN], told[BEGUN]))

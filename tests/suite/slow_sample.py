"""Run a sample of the slow tests for about a minute: `pytest --slow-sample SEED`.

`.ci/run` passes the commit as the seed: each commit runs other slow tests, and a failure can be
repeated with its seed. The seed determines the order of the files. In each turn, each file
contributes three tests. No test starts after BOUND_S.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pytest

from tests.suite.cpu_report import file_of

BOUND_S: Final = 45.0
# The number of tests that a file contributes in each turn. A few of the 39 files have thousands of
# slow tests; running all of them would leave no time for the other files.
_IN_TURN: Final = 3
# Files and folders whose tests try thousands of seeds, for up to a minute of CPU each. On a busy
# machine such a test would be ended as hanging; on any machine it would leave no time for others.
_LONG: Final = (
    *(f"tests/distributed/{room}/simulation/" for room in ("autograd", "process_group", "rpc")),
    *("tests/distributed/arena/", "tests/distributed/pipe/ring/", "tests/distributed/rpc/calls/"),
    *("tests/distributed/rpc/message/", "tests/distributed/test_soak.py", "tests/kernels/guarded/"),
    *("tests/disturbances/test_concurrent_works.py", "tests/serialization/test_legacy_reader.py"),
    *("tests/serialization/test_rebuilding.py", "tests/serialization/test_tar_reader.py"),
)


class SlowSample:
    """A plugin that keeps only slow tests, shuffles them, and starts none after the time limit."""

    def __init__(self, seed: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._seed, self._clock = seed, clock
        self._begun_at: float | None = None
        self.ran: list[str] = []
        self.left = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Iterator[None]:
        """Keep the slow tests of the sample, in the order of the seed."""
        yield
        slow = [item for item in items if is_drawn(item)]
        config.hook.pytest_deselected(items=[item for item in items if not is_drawn(item)])
        items[:] = in_turns(slow, random.Random(self._seed))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Let pytest run a test as usual while there is time left; otherwise skip it."""
        if self._begun_at is None:
            self._begun_at = self._clock()
        if self._clock() - self._begun_at < BOUND_S:
            self.ran.append(item.nodeid)
            return None
        self.left += 1
        return True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write how many tests ran, since the next commit runs others."""
        files = len({nodeid.partition("::")[0] for nodeid in self.ran})
        ran = f"{len(self.ran)} tests of {files} files"
        terminalreporter.write_line(f"slow sample {self._seed}: {ran}, {self.left} not drawn")


def is_drawn(item: pytest.Item) -> bool:
    """Return whether a test is slow but takes less than about a minute."""
    is_long = item.get_closest_marker("timeout") or item.nodeid.startswith(_LONG)
    return item.get_closest_marker("slow") is not None and not is_long


def in_turns(items: Sequence[pytest.Item], numbers: random.Random) -> list[pytest.Item]:
    """Return the tests in an order that the seed determines, a few of each file per turn."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(file_of(item), []).append(item)
    for tests in files.values():
        numbers.shuffle(tests)
    drawn, turns = [], [*files.values()]
    numbers.shuffle(turns)
    while turns:
        for tests in turns:
            drawn += tests[:_IN_TURN]
            del tests[:_IN_TURN]
        turns = [tests for tests in turns if tests]
    return drawn

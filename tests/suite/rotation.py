"""The marker `one_in(n)`: a run of all tests runs one in n of the cases; each commit runs others.

At least one case of a parametrized function runs. A function that is not parametrized runs or not,
independently of the others, in one in n commits. Each case of a function with
`one_in(n, each=True)` is drawn in the same way, so a commit may run none of them. The commit
determines which tests run, so a failure can be repeated with `--rotate COMMIT`. Runs that name
files, `-k` or `-m`, and runs with `--slow` or `--rotate off`, run all cases. The tests of mutants
name files, so all their cases run.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import pytest

from tests.lanes import names_no_tests

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

MARK: Final = "one_in"
OFF: Final = "off"
ANYWHERE: Final = "without a commit"


class Rotation:
    """A plugin that knows the seed of this run; the processes of a shared run get it from the
    controller.
    """

    def __init__(self, config: pytest.Config, root: str) -> None:
        given = getattr(config, "workerinput", None)
        self.seed: str | None = seed_of_run(config, root) if given is None else given[MARK]

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        node.workerinput[MARK] = self.seed

    def others(self, items: Sequence[pytest.Item]) -> set[pytest.Item]:
        """Return the tests that do not run in this run."""
        return set() if self.seed is None else of_other_commits(items, self.seed)


def seed_of_run(config: pytest.Config, root: str) -> str | None:
    """Return the seed that determines which cases run, or None if all of them run.

    The seed is that of `--rotate`; for runs of all tests, it is the commit of the checkout.
    """
    option = config.option
    if option.slow or option.rotate == OFF:
        return None
    if option.rotate is not None:
        return str(option.rotate)
    if not names_no_tests(config) or option.keyword or option.markexpr:
        return None
    return commit_of(root)


def commit_of(root: str) -> str:
    """Return the first 8 digits of the commit in a checkout; ANYWHERE if there is none."""
    # Not --short: how many digits that gives depends on the clone.
    command = ["git", "-C", root, "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout[:8]
    except (OSError, subprocess.CalledProcessError):
        return ANYWHERE


def of_other_commits(items: Iterable[pytest.Item], seed: str) -> set[pytest.Item]:
    """Return the tests that do not run with this seed.

    Tests of seed rows always run, because a run of all tests reports each row.
    """
    groups: dict[tuple[str, int], list[pytest.Item]] = {}
    left = set[pytest.Item]()
    for item in items:
        mark = item.get_closest_marker(MARK)
        if mark is None or item.get_closest_marker("seed") is not None:
            continue
        (one_in,) = mark.args
        function, is_case, _ = item.nodeid.partition("[")
        if is_case and not mark.kwargs.get("each"):
            groups.setdefault((function, one_in), []).append(item)
        elif _draw(seed, item) % one_in:
            left.add(item)
    for (_, one_in), group in groups.items():
        in_order = sorted(group, key=lambda item: _draw(seed, item))
        left.update(in_order[math.ceil(len(group) / one_in) :])
    return left


def _draw(seed: str, item: pytest.Item) -> int:
    # Not CRC-32: of two names of one length, it differs by the same bits with each seed.
    return int.from_bytes(sha256(f"{seed} {item.nodeid}".encode()).digest()[:8])

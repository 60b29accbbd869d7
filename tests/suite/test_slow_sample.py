"""A seed determines which slow tests run, each file gets turns, and no test starts late."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from tests.conftest import ROOT
from tests.suite.slow_sample import _LONG, BOUND_S, SlowSample, in_turns, is_drawn


def item(file: str, number: int, *marks: str) -> Any:
    one = Mock(nodeid=f"tests/{file}.py::test_it[{number}]")
    one.get_closest_marker = lambda name: name if name in marks else None
    return one


def slow_tests(**counts: int) -> list[Any]:
    return [item(file, number, "slow") for file, count in counts.items() for number in range(count)]


def test_a_seed_leads_the_order_and_every_test_is_in_it() -> None:
    tests = slow_tests(a=40, b=40)
    first, again, other = (in_turns(tests, random.Random(seed)) for seed in ("1", "1", "2"))
    assert first == again != other
    assert sorted(one.nodeid for one in first) == sorted(one.nodeid for one in tests)


def test_files_with_few_tests_have_their_turn_early() -> None:
    drawn = in_turns(slow_tests(many=1000, few=2, one=1), random.Random(7))
    early = [one.nodeid.partition(".")[0] for one in drawn[:6]]
    assert sorted(early) == ["tests/few"] * 2 + ["tests/many"] * 3 + ["tests/one"]


def collected(sample: SlowSample, items: list[Any]) -> Any:
    """Let a sample change the list of collected tests; return the configuration, a mock."""
    config = Mock()
    hook: Iterator[None] = sample.pytest_collection_modifyitems(config, items)
    next(hook)
    with pytest.raises(StopIteration):
        next(hook)
    return config


def test_what_is_not_slow_or_has_a_longer_limit_is_deselected() -> None:
    slow, quick, longer = item("a", 1, "slow"), item("a", 2), item("a", 3, "slow", "timeout")
    assert [is_drawn(one) for one in (slow, quick, longer)] == [True, False, False]
    items = [quick, slow, longer]
    config = collected(SlowSample("1"), items)
    assert items == [slow]
    config.hook.pytest_deselected.assert_called_once_with(items=[quick, longer])


def test_files_whose_slow_tests_take_a_minute_are_left_out_and_are_there() -> None:
    assert not is_drawn(item("kernels/guarded/test_guarded", 1, "slow"))
    for start in _LONG:
        files = [path for path in ROOT.glob(f"{start}*") if path.is_dir() or path.suffix == ".py"]
        assert files, start


def test_no_test_begins_once_the_time_is_over() -> None:
    times = iter([10.0, 10.0, 10.0 + BOUND_S - 0.1, 10.0 + BOUND_S, 10.0 + BOUND_S + 1])
    sample = SlowSample("1", lambda: next(times))
    tests = slow_tests(a=2, b=2)
    assert [sample.pytest_runtest_protocol(one) for one in tests] == [None, None, True, True]
    assert sample.ran == [one.nodeid for one in tests[:2]] and sample.left == 2


def test_the_gate_of_a_commit_names_every_file_with_slow_tests() -> None:
    text = (ROOT / ".ci" / "run").read_text()
    found = r"--slow-sample [^\n]* \\\n +\$\(grep -rl (\S+) --include='(\S+)' tests\)\n"
    command = re.search(found, text)
    assert command is not None
    mark, pattern = command[1].strip("'"), command[2]
    named = {path for path in (ROOT / "tests").rglob(pattern) if re.search(mark, path.read_text())}
    assert len(named) > 30
    others = {path for path in (ROOT / "tests").rglob("*.py") if path not in named}
    assert not [path for path in others if re.search(r"mark\.slow\b", path.read_text())]

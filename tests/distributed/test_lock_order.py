"""Threads take the locks of workers in one order: a table lists all locks, and jobs follow it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

from tests.distributed.lock_table import CONDITIONS, ELSEWHERE, LEVELS
from tests.suite import lock_order

ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("distributed", "concurrency", "engine", "launch", "integrations")
_MAKERS = {"Lock", "RLock", "Condition"}
# Tests of calls, references, gradients, a worker that rejoins, and process groups.
_JOBS = (
    "rpc/test_coming_back.py::test_who_was_killed_comes_back_under_its_name_and_the_others_go_on",
    "process_group/test_jobs.py::test_gradients_of_a_pass_over_rpc_are_reduced",
    "process_group/test_jobs.py::test_a_killed_member_is_named_on_all_others",
    "rpc/references/test_races.py",
)


def made_in_the_code() -> Iterator[str]:
    for package in _PACKAGES:
        for path in sorted((ROOT / "fastdist" / package).rglob("*.py")):
            text = path.read_text()
            if not any(f"{maker}(" in text for maker in _MAKERS):
                continue
            lines = {
                node.lineno
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Call) and _name(node.func) in _MAKERS
            }
            if lines:
                yield from _locks_of(compile(text, path, "exec"), lines)


def _locks_of(code: CodeType, lines: set[int]) -> Iterator[str]:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    own = {line for _, _, line in code.co_lines() if line is not None}
    for each in inner:
        yield from _locks_of(each, lines)
        own -= {line for _, _, line in each.co_lines()}
    for line in sorted(own & lines):
        name = lock_order.lock_name(code, line)
        if name is not None:
            yield name


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


@pytest.mark.one_in(3)
def test_the_table_has_each_lock_once():
    listed = [name for level in LEVELS for name in level]
    assert len(listed) == len({*listed})
    found = {*made_in_the_code()} - {*CONDITIONS, "concurrency.lent_locks._RLOCK"}
    assert sorted(found ^ {*listed} - {*ELSEWHERE}) == []


@pytest.mark.one_in(3)
def test_jobs_take_locks_in_the_order_of_the_table(tmp_path: Path) -> None:
    tests = [str(ROOT / "tests" / "distributed" / job) for job in _JOBS]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, lock_order.FOLDER: str(tmp_path)}
    run = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-4000:]
    pairs = lock_order.read_pairs(tmp_path)
    assert lock_order.violations(pairs, LEVELS) == []
    # The recorder must have seen pairs of nested locks.
    assert ("pipe.pipe.Pipe._shared_lock", "pipe.pipe.Pipe._lock") in pairs
    assert ("rpc.workers.callers.Callers._lock", "rpc.workers.callers.CallerLane._lock") in pairs
    assert ("links.hub._hubs_lock", "links.hub.Hub._lock") in pairs


@pytest.mark.parametrize("make", [lock_order.WatchedLock, lock_order.WatchedRLock])
def test_two_locks_in_two_orders_are_found(
    make: type[lock_order.WatchedLock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(lock_order.FOLDER, str(tmp_path))
    real = threading.RLock if make is lock_order.WatchedRLock else threading.Lock
    outer, inner = make(real, f"{make.__name__}.outer"), make(real, f"{make.__name__}.inner")
    levels = ({outer.name: ""}, {inner.name: ""})
    with outer, inner:
        pass
    assert lock_order.violations(lock_order.read_pairs(tmp_path), levels) == []
    with inner:
        assert outer.acquire(blocking=False)  # not recorded, since it cannot deadlock
        outer.release()
    assert lock_order.violations(lock_order.read_pairs(tmp_path), levels) == []
    with inner, outer:
        pass
    (found,) = lock_order.violations(lock_order.read_pairs(tmp_path), levels)
    assert outer.name in found and inner.name in found


def test_conditions_stand_on_watched_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(lock_order.FOLDER, str(tmp_path))
    outer = lock_order.WatchedLock(threading.Lock, "condition.outer")
    changed = threading.Condition(lock_order.WatchedRLock(threading.RLock, "condition.inner"))
    with changed:
        with changed:
            assert not changed.wait(0.001)
        with outer:
            pass
    assert lock_order.read_pairs(tmp_path).keys() == {("condition.inner", "condition.outer")}

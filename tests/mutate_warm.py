"""A pytest plugin for tests.mutate: a process that collects tests once and forks for each mutant.

The child replaces the code of the loaded functions by that of the mutant, because starting Python
and collecting the tests takes longer than detecting most mutants. A test that fails in the child
runs again alone in a new process. If a mutant survives here and its lines run at import, all its
tests run again in a new process, because the import has already called the unchanged function.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

SERVE = "PYTEST_MUTATE_SERVE"  # the socket's file descriptor, for requests and answers

UNABLE = 99  # the exit status of a child that cannot replace the changed code

Codes = dict[tuple[str, int], CodeType]


def codes_of(source: bytes, name: str) -> Codes:
    """Return the code object of each function of a module, by the function's name and its index
    among functions with the same name.
    """
    found: Codes = {}

    def walk(code: CodeType) -> None:
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                number = sum(qualname == inner.co_qualname for qualname, _ in found)
                found[inner.co_qualname, number] = inner
                walk(inner)

    walk(compile(source, name, "exec", dont_inherit=True))
    return found


def function_codes(
    path: str, before: bytes, after: bytes, within: str
) -> list[tuple[CodeType, CodeType]]:
    """Return pairs (code, code with the mutant) for a function and each of its inner functions.

    The list is empty if calling the function does not run the changed code.
    """
    old, new = codes_of(before, path), codes_of(after, path)
    if old.keys() != new.keys():
        return []
    names = {name for name, _ in old if name.replace(".<locals>", "") == within}
    pairs = [
        (code, new[name, number])
        for (name, number), code in old.items()
        if name in names or any(name.startswith(f"{outer}.<locals>.") for outer in names)
    ]
    is_broken = any(not _is_same(one, other) for one, other in pairs)
    return pairs if is_broken and all(a.co_freevars == b.co_freevars for a, b in pairs) else []


def _is_same(one: CodeType, other: CodeType) -> bool:
    return _content(one) == _content(other)


def _content(code: CodeType) -> tuple[object, ...]:
    numbers = [repr(one) for one in code.co_consts if not isinstance(one, CodeType)]
    return code.co_code, code.co_names, code.co_varnames, numbers


def put_in(pairs: list[tuple[CodeType, CodeType]]) -> int:
    """Replace the code of each function that has an old code object; return how many there are."""
    gc.unfreeze()  # gc.get_objects() does not list frozen objects
    by_place = {(a.co_filename, a.co_qualname, a.co_firstlineno): b for a, b in pairs}
    number = 0
    for one in gc.get_objects():
        if one.__class__ is FunctionType:
            code = one.__code__
            new = by_place.get((code.co_filename, code.co_qualname, code.co_firstlineno))
            if new is not None:
                one.__code__ = new
                number += 1
    gc.freeze()
    return number


class Serving:
    """Answers each request with the exit status of a forked child that runs the requested tests."""

    def __init__(self, told: str) -> None:
        both = int(told)
        self._requests, self._answers = os.fdopen(both), os.fdopen(os.dup(both), "w", buffering=1)
        self._is_child = False
        self._begun: Path | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> object:
        """Wait for requests; in the forked child, return to run the tests of one request."""
        self._answers.write("ready\n")
        for text in self._requests:
            request = json.loads(text)
            child = os.fork()
            if child == 0:
                self._begin(session, request)
                return None
            self._answers.write(f"{_status_of(child, request['within_s'])}\n")
        return True

    def _begin(self, session: pytest.Session, request: dict[str, Any]) -> None:
        os.setsid()
        self._is_child = True
        self._begun = Path(request["begun"])
        path = request["path"]
        pairs = function_codes(
            path, request["before"].encode(), request["after"].encode(), request["within"]
        )
        bounds: dict[str, float] = request["bounds"]
        items = {item.nodeid: item for item in session.items if item.nodeid in bounds}
        if not pairs or not put_in(pairs) or len(items) < len(bounds):
            os._exit(UNABLE)
        session.items = [items[nodeid] for nodeid in bounds]
        for nodeid, bound in bounds.items():
            items[nodeid].add_marker(pytest.mark.timeout(bound, method="signal"), append=False)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self._begun is not None:
            self._begun.write_text(nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self._is_child:
            os._exit(int(exitstatus))  # skips the cleanup, which belongs to the parent


def _status_of(child: int, within_s: float) -> int:
    """Return a child's exit status, or 1 if it timed out or a signal ended it."""
    handle = os.pidfd_open(child)
    try:
        if not select.select([handle], [], [], within_s)[0]:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(handle)
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # also kills processes that its tests left
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 1


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Read the environment variables and register the plugin."""
    if (told := os.environ.pop(SERVE, None)) is not None:
        early_config.pluginmanager.register(Serving(told))

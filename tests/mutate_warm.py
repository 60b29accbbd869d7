"""A plugin of pytest for tests.mutate: a process that has collected tests, forked for each break.

The break is made in the loaded functions: starting Python and collecting the tests takes longer
than most breaks live. A test that fails here runs again, alone, in a new process; so do all tests
for a break that survives here and whose lines run at import, since the result of a call at import
is that of the old function.
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

SERVE = "PYTEST_MUTATE_SERVE"  # the descriptor of the socket for requests and answers

UNABLE = 99  # the exit status of a child that cannot make the break

Codes = dict[tuple[str, int], CodeType]


def codes_of(source: bytes, name: str) -> Codes:
    """Return the code of each function of a module, by its name and its place among such."""
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
    """Return the code of a function and of those inside it, before and after a break; nothing where
    the break is not in what runs when the function is called.
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
    """Let all functions that have an old code have the new one; return how many had."""
    gc.unfreeze()  # what is frozen is not listed
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
    """Answers each request with the exit status of a forked child that runs the tests named."""

    def __init__(self, told: str) -> None:
        both = int(told)
        self._requests, self._answers = os.fdopen(both), os.fdopen(os.dup(both), "w", buffering=1)
        self._is_child = False
        self._begun: Path | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> object:
        """Wait for requests; go on, in a child, with the tests of one."""
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
            os._exit(int(exitstatus))  # what is cleared away at the end is the parent's


def _status_of(child: int, within_s: float) -> int:
    """Return the exit status of a child; 1 where it took too long or a signal ended it."""
    handle = os.pidfd_open(child)
    try:
        if not select.select([handle], [], [], within_s)[0]:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(handle)
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what its tests have left
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 1


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Do what the environment says."""
    if (told := os.environ.pop(SERVE, None)) is not None:
        early_config.pluginmanager.register(Serving(told))

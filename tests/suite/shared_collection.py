"""Processes that share a run share its collection: one collects all tests.

The others collect none before they run them.

xdist has each process import all files of tests and make all tests: 12 s of a core for 36,000, in
each. Here the first that comes writes the names of the tests into a file. The others read it, and
collect the files whose tests they are given, when they are given them.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.warnings import catch_warnings_for_item

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

_INPUT = "collection"


class NamedTest:
    """A test that is not collected yet: what is asked of the test that comes next."""

    def __init__(self, nodeid: str, file: pytest.File) -> None:
        self.nodeid, self._file = nodeid, file

    def listchain(self) -> list[Any]:
        """Return the nodes from the session to the file, whose fixtures are kept for this test."""
        return self._file.listchain()


class LateTests(Sequence[Any]):
    """The tests of a session by number; the files of those that run are collected."""

    def __init__(
        self, session: pytest.Session, nodeids: list[str], files: dict[str, pytest.File]
    ) -> None:
        self._session, self._nodeids, self._files = session, nodeids, files
        self._collected: dict[str, dict[str, pytest.Item]] = {}
        plugins = session.config.pluginmanager.get_plugins()
        # xdist's part in this process knows which test it runs.
        self._runner: Any = next((one for one in plugins if hasattr(one, "torun")), None)

    def __len__(self) -> int:
        return len(self._nodeids)

    def __iter__(self) -> Iterator[NamedTest]:
        for nodeid in self._nodeids:
            yield NamedTest(nodeid, self._files[_file_of(nodeid)])

    def __getitem__(self, number: Any) -> Any:
        """Return the test of a number. The next one is only named where its file is not collected:
        what the fixtures of this file have set must not be seen by the imports of another.
        """
        nodeid = self._nodeids[number]
        file = _file_of(nodeid)
        if file not in self._collected:
            if number != self._runner.item_index:
                return NamedTest(nodeid, self._files[file])
            self._collected[file] = self._collect(self._files[file])
        return self._collected[file][nodeid]

    def _collect(self, file: pytest.File) -> dict[str, pytest.Item]:
        session, config = self._session, self._session.config
        hook = config.hook
        with catch_warnings_for_item(config, hook, when="collect", item=None):
            items = [*session.genitems(file)]
            hook.pytest_collection_modifyitems(session=session, config=config, items=items)
        return {item.nodeid: item for item in items}


class SharedCollection:
    """A plugin for the process that gives out the tests, and for those that run them."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._nodeids: list[str] | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        node.workerinput[_INPUT] = str(self._folder / _INPUT)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        path = getattr(session.config, "workerinput", {}).get(_INPUT)
        # A test that is named is a node of its own, above which no file is found here.
        if path is None or any("::" in word for word in session.config.args):
            return
        whole = session.perform_collect

        def collect() -> Sequence[Any]:
            # Held by one that collects, until it ends: a process that crashes leaves it to others.
            with open(f"{path}.lock", "wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                kept = Path(path)
                if not kept.exists():
                    items = whole()
                    kept.write_text(json.dumps([item.nodeid for item in items]))
                    return items
            self._nodeids = json.loads(kept.read_text())
            whole(genitems=False)
            session.testscollected = len(session.items)
            return session.items

        session.perform_collect = collect  # type: ignore[method-assign, assignment]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[Any]) -> None:
        """Take the folders of tests, which are all that was collected, for the tests by name."""
        if self._nodeids is not None:
            files = {file.nodeid: file for node in items for file in _files_below(session, node)}
            session.items = LateTests(session, self._nodeids, files)  # type: ignore[assignment]
            items.clear()
            self._nodeids = None


def _files_below(session: pytest.Session, node: Any) -> Iterator[pytest.File]:
    if isinstance(node, pytest.File):
        yield node
        return
    report, is_second = session._collect_one_node(node, True)
    for each in report.result if report.passed else ():
        yield from _files_below(session, each)
    if not is_second:
        node.ihook.pytest_collectreport(report=report)


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]

"""The processes of a run share the collection of its tests.

With plain xdist, each process imports all test files, which takes 12 s of a core for 36,000 tests.
Here one process collects everything and writes the names of the tests to a file. The other
processes read the names, and collect a test file just before its first test runs.
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
    """A test that is not collected yet; it has the attributes that pytest reads of a next test."""

    def __init__(self, nodeid: str, file: pytest.File) -> None:
        self.nodeid, self._file = nodeid, file

    def listchain(self) -> list[Any]:
        """Return the nodes from the session to the file, whose fixtures this test may still use."""
        return self._file.listchain()


class LateTests(Sequence[Any]):
    """The tests of a session, by index; a test file is collected before its first test runs."""

    def __init__(
        self, session: pytest.Session, nodeids: list[str], files: dict[str, pytest.File]
    ) -> None:
        self._session, self._nodeids, self._files = session, nodeids, files
        self._collected: dict[str, dict[str, pytest.Item]] = {}
        plugins = session.config.pluginmanager.get_plugins()
        # The plugin of xdist in this process knows the index of the running test.
        self._runner: Any = next((one for one in plugins if hasattr(one, "torun")), None)

    def __len__(self) -> int:
        return len(self._nodeids)

    def __iter__(self) -> Iterator[NamedTest]:
        for nodeid in self._nodeids:
            yield NamedTest(nodeid, self._files[_file_of(nodeid)])

    def __getitem__(self, number: Any) -> Any:
        """Return the test with this index. If it is the next test, and its file is not collected,
        return a NamedTest.

        The next file must not be imported while fixtures of the current file are in effect.
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
    """A plugin for the controller of a shared run and for its workers."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._nodeids: list[str] | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        node.workerinput[_INPUT] = str(self._folder / _INPUT)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        path = getattr(session.config, "workerinput", {}).get(_INPUT)
        # If the command line names a single test, pytest collects that test and not its file.
        if path is None or any("::" in word for word in session.config.args):
            return
        whole = session.perform_collect

        def collect() -> Sequence[Any]:
            # The lock is released when its process ends, so after a crash another process collects.
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
        """Replace the collected folders by the tests whose names were read."""
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

"""Report at the end of the run where an xdist worker crashed or hung.

faulthandler writes tracebacks to the process's standard error, far above the summary and mixed with
the output of other processes. Here each worker process writes its tracebacks to a separate file,
and after a crash the summary shows that file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

_MOST_LINES = 120


class CrashReport:
    """A plugin for the xdist controller and its workers."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._crashes: list[tuple[str, str]] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        node.workerinput["faults"] = str(self._folder / f"faults-{node.gateway.id}")

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        path = getattr(session.config, "workerinput", {}).get("faults")
        written_to = session.config.stash.get(fault_handler_stderr_fd_key, None)
        if path is not None and written_to is not None:
            with open(path, "wb") as file:
                os.dup2(file.fileno(), written_to)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController, error: object) -> None:
        if error is None:
            return
        process = getattr(node.gateway._io, "popen", None)
        status = None if process is None else process.wait(10)
        path = Path(node.workerinput["faults"])
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        text = "\n".join(lines[:_MOST_LINES]) or "faulthandler wrote nothing"
        self._crashes.append((f"{node.gateway.id} ended with status {status}", text))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for title, text in self._crashes:
            terminalreporter.section(title)
            terminalreporter.write_line(text)

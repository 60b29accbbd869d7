"""Runs of pytest in forked processes, in other trees than this one, such as copies of tests.mutate.

Starting Python and importing pytest takes half a second of a core, which is most of the time of a
run of two short tests. The template has imported pytest, but no module of a tree.
"""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

if __name__ == "__main__":
    # The folder of this file must not hide modules of the standard library or the project.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests import mutate_lines, mutate_pick, mutate_warm
from tests.distributed import templates
from tests.launch import forked_programs

ROOT = str(forked_programs.ROOT)
# Modules that a run of pytest imports; plugins are omitted, as pytest rewrites them at import.
_PRELOADED = (
    *("pytest", "unittest", "doctest", "json", "tomllib", "xml.etree.ElementTree", "mmap"),
    *(f"_pytest.{name}" for name in ("config", "main", "runner", "terminal", "python", "fixtures")),
    *(f"_pytest.{name}" for name in ("capture", "debugging", "doctest", "junitxml", "logging")),
    *(f"_pytest.{name}" for name in ("pastebin", "recwarn", "reports", "skipping", "stepwise")),
    *(f"_pytest.{name}" for name in ("faulthandler", "legacypath", "setuponly", "unittest")),
    *(f"_pytest.{name}" for name in ("threadexception", "unraisableexception", "warnings")),
    *("importlib.metadata", "multiprocessing", "execnet", "pdb"),
)
# The environment variable with the number of a descriptor that is passed to the program.
_PASSED = "PYTEST_TEST_PASSED"
_READ_LATE = (
    *(mutate_lines.FOLDER, mutate_lines.NOTES, mutate_lines.CHOSEN, mutate_lines.BEGUN),
    *(mutate_pick.PICKED, mutate_warm.SERVE),
)


class ForkedPytest(forked_programs.ForkedPopen):
    """A replacement for `subprocess.Popen` in which `python -m pytest` is a fork of the template.

    The fork uses the PYTHONPATH of its environment, not that of the template. Other programs are
    started as usual.
    """

    def _fork(self, words: types.SimpleNamespace) -> templates.Process | None:
        environment = {**(words.env or os.environ)}
        is_usual = templates.is_usual({**environment, "PYTHONPATH": ROOT}, *_READ_LATE)
        if [*words.args[:3]] != [sys.executable, "-m", "pytest"] or not is_usual:
            return None
        (passed,) = words.pass_fds or (None,)
        environment[_PASSED] = str(passed)
        told = ([*map(str, words.args[1:])], environment, str(words.cwd or os.getcwd()))
        streams = forked_programs.streams_of(words)
        connection = streams[0] if passed is None else passed
        return templates.fork("pytest", __file__, told, connection, streams)


def _leave_this_tree() -> None:
    """Forget the imported modules of this tree; import those of the tree on PYTHONPATH instead."""
    for name in [*sys.modules]:
        if name.partition(".")[0] in ("tests", "bench", "fastdist"):
            del sys.modules[name]
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:] = [*path, *(place for place in sys.path[1:] if place != ROOT)]


if __name__ == "__main__":
    given, number = templates.serve(int(sys.argv[1]), _PRELOADED, leads=True), os.environ[_PASSED]
    if number not in ("None", str(given)):
        os.dup2(given, int(number))
    if number != str(given):
        os.close(given)
    _leave_this_tree()
    forked_programs.be(sys.argv[1:])

"""Launchers forked by a template, so that a test run imports `python -m fastdist.run` only once.

Most launchers also fork their workers; a worker in a new process spends 0.4 s of a core on imports.
"""

from __future__ import annotations

import atexit
import io
import os
import runpy
import subprocess
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

if __name__ == "__main__":
    # The folder of this file must not hide modules of the standard library or the project.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.distributed import templates
from tests.launch import forked_programs

# Variables that the launcher reads when it runs, in addition to fastdist's variables.
_READ_LATE = (
    *("COLUMNS", "CUDA_VISIBLE_DEVICES", "LINES", "OMP_NUM_THREADS", "TERM"),
    *("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE"),
)


def begin(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    out: int,
    err: int,
    is_child: bool = False,
    starts_workers: bool = False,
) -> templates.Process:
    """Start `python -m fastdist.run ARGUMENTS` as a shell does, with two given streams.

    The launcher is forked, with two exceptions. It is started if a variable only takes effect in a
    new process. It is started as a child of this process, with its limits, if `is_child` is true.
    Workers are started as new processes, as for users, if `starts_workers` is true, in one of forty
    tests (chosen by name), or with --slow. Otherwise they are forked.
    """
    # The kernel does not let a terminal's signal stop a process group if all parents are inside it.
    if is_child or not templates.is_usual(environment, *_READ_LATE):
        return subprocess.Popen(
            [sys.executable, "-m", "fastdist.run", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            process_group=0,
        )
    starts_workers = starts_workers or _are_workers_started(environment)
    ways = (templates.how_it_ends(0, environment), _STARTED if starts_workers else _FORKED)
    words = ([*ways, *arguments], {**environment}, os.getcwd())
    with open(os.devnull, "rb") as nothing:
        streams = (nothing.fileno(), out, err)
        return templates.fork("launcher", __file__, words, nothing.fileno(), streams)


_STARTS_WORKERS_ONE_IN = 40
_STARTED, _FORKED = "workers are started", "workers are forked"


def _are_workers_started(environment: Mapping[str, str]) -> bool:
    test = environment.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    is_sampled = templates.ENDS_WHOLE_ONE_IN > 1
    return not is_sampled or zlib.crc32(test.encode()) % _STARTS_WORKERS_ONE_IN == 0


def _open_streams() -> None:
    """Reopen Python's standard streams: a terminal is not buffered in the same way as a pipe."""
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # type: ignore[misc]  # noqa: SIM115
    for name, number, errors in (("stdout", 1, "strict"), ("stderr", 2, "backslashreplace")):
        raw = open(number, "wb", closefd=False)  # noqa: SIM115
        by_line = name == "stderr" or os.isatty(number)
        stream = io.TextIOWrapper(raw, errors=errors, line_buffering=by_line)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _end_at_once() -> None:
    """Exit immediately, after all other atexit functions."""
    if isinstance(_status, int):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_status)


_status: object = None

if __name__ == "__main__":
    atexit.register(_end_at_once)  # registered first, so that it is called last
    os.close(templates.serve(int(sys.argv[1]), forked_programs._PRELOADED, leads=True))
    _open_streams()
    sys.path[0] = os.getcwd()
    how, workers_how = sys.argv.pop(1), sys.argv.pop(1)
    if workers_how == _FORKED:
        forked_programs._fork_workers()
    try:
        runpy.run_module("fastdist.run", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if how == templates.AT_ONCE:
            _status = ended.code
        raise

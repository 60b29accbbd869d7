"""Divide pytest's assertion rewriting between the processes of a run.

pytest compiles each test file with more detailed assertions, and caches the result next to the
file. In a fresh clone this takes 11 s of a core, and each process would rewrite all files at the
same time. Here each process first rewrites a share of the files. At collection it finds the files
that other processes have rewritten.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite


class SharedRewriting:
    """A plugin of each process that runs tests."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        given = getattr(session.config, "workerinput", None)
        if given is None or sys.dont_write_bytecode:
            return
        count = given["workercount"]
        # A process that replaces a crashed one has a number of at least `count`.
        number = int(given["workerid"].removeprefix("gw")) % count
        for path in test_files(session.config)[number::count]:
            rewrite_once(session.config, path)


def test_files(config: pytest.Config) -> list[Path]:
    """Return the test files in the folders, and the test files, that the command line names."""
    named = [config.invocation_params.dir / word.partition("::")[0] for word in config.args]
    found = (path.rglob("test_*.py") if path.is_dir() else [path] for path in named)
    whole = {path for paths in found for path in paths}
    return sorted(path for path in whole if path.suffix == ".py" and path.is_file())


def rewrite_once(config: pytest.Config, path: Path) -> bool:
    """Write a test file's rewritten code to pytest's cache, unless the cache has a file for it.

    The cached file may belong to an older version of the test file; pytest notices this when it
    imports the test file.
    """
    folder = rewrite.get_cache_dir(path)
    kept = folder / f"{path.stem}{rewrite.PYC_TAIL}"
    if kept.exists() or not rewrite.try_makedirs(folder):
        return False
    try:
        source, code = rewrite._rewrite_test(path, config)
    except (OSError, SyntaxError, ValueError):
        return False  # pytest reports the error at import
    return rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source, kept)

"""The cache directory is usable or None, and generated modules have the given source."""

from __future__ import annotations

import errno
import inspect
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from fastdist.system import cache_directory as module
from fastdist.system.cache_directory import cache_directory, load_generated

# Print which of these modules the cache has loaded; a .pth file may have loaded some earlier.
_LOADED = """
import sys
import fastdist.system.cache_directory as module
assert module.load_generated("x = 1", "of_test").x == 1
for name in ("importlib.abc", "tempfile", "shutil", "bz2", "lzma", "pathlib"):
    if name in sys.modules:
        print(name)
"""
_ROOTS = os.pathsep.join(path for path in sys.path if path)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FASTDIST_CACHE_DIR", str(tmp_path / "cache"))
    # The function's own cache is bypassed: no results of other tests are used, and none are left.
    monkeypatch.setattr(module, "cache_directory", cache_directory.__wrapped__)
    return tmp_path / "cache"


def test_environment_names_the_directory_and_it_is_private(root: Path) -> None:
    assert module.cache_directory("numba") == str(root / "numba")
    assert (root / "numba").stat().st_mode & 0o077 == 0


def test_default_lies_under_the_users_cache(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FASTDIST_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(root))
    found = module.cache_directory()
    assert found is not None and Path(found).parent == root / "fastdist"
    assert Path(found).name.startswith(f"{sys.modules['fastdist'].__version__}-")


def test_user_without_a_home_has_none(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root.parent)
    monkeypatch.setenv("FASTDIST_CACHE_DIR", "~no-such-user/cache")
    assert module.cache_directory() is None
    assert not list(root.parent.iterdir())


def test_directory_needs_no_modules_that_workers_do_without(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": _ROOTS, "FASTDIST_CACHE_DIR": str(tmp_path)}
    for is_written in (True, False):
        done = subprocess.run(
            [sys.executable, "-S", "-c", _LOADED], env=environment, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        assert ("tempfile" in done.stdout.split()) is is_written
    assert done.stdout.split() == []


def test_directory_that_cannot_be_made_is_none(root: Path) -> None:
    root.touch()
    assert module.cache_directory("numba") is None


def test_a_directory_that_others_could_fill_is_none_and_the_log_says_so_once(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root.mkdir()
    root.chmod(0o777)
    assert [module.cache_directory(name) for name in ("", "numba", "generated", "numba")] == [
        None
    ] * 4
    told = [one.getMessage() for one in caplog.records]
    assert all("cache', mode 0777, lets others" in one for one in told)
    assert all("set FASTDIST_CACHE_DIR to a folder of your own" in one for one in told)
    assert len(told) == 1 and str(root) in told[0] and module.why_no_cache() == told[0]


def test_the_cache_of_one_user_is_not_anothers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.cache_directory("numba") is not None
    monkeypatch.setattr(module.os, "geteuid", lambda: 4_711)
    assert module.cache_directory("numba") is None
    assert "belongs to user" in module.why_no_cache()


@pytest.mark.parametrize("writable", [True, False])
def test_generated_module_runs_and_shows_its_source(root: Path, writable: bool) -> None:
    if not writable:
        root.touch()
    loaded = load_generated(f"def double(x):\n    return x + x  # {writable}\n", "test")
    try:
        assert loaded.double(4) == 8
        assert sys.modules[loaded.__name__] is loaded
        assert "return x + x" in inspect.getsource(loaded.double)
        assert Path(str(loaded.__file__)).exists() is writable
    finally:
        del sys.modules[loaded.__name__]


@pytest.mark.parametrize("kind", ["gone", "a file"])
def test_directory_that_goes_away_while_the_process_runs_is_not_needed(
    root: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(module, "cache_directory", cache_directory)
    cache_directory.cache_clear()
    assert module.cache_directory("generated") == str(root / "generated")
    shutil.rmtree(root)
    if kind == "a file":
        root.touch()
    try:
        loaded = load_generated(f"def double(x):\n    return x + x  # {kind}\n", "test")
        assert loaded.double(4) == 8
        del sys.modules[loaded.__name__]
    finally:
        cache_directory.cache_clear()


def test_disk_that_is_full_leaves_no_part_of_a_file(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.os, "replace", fail)
    loaded = load_generated("def double(x):\n    return x + x  # full\n", "test")
    assert loaded.double(4) == 8
    del sys.modules[loaded.__name__]
    assert list((root / "generated").iterdir()) == []


def test_same_text_is_one_module_in_every_thread(root: Path) -> None:
    loaded: list[ModuleType] = []
    start = threading.Barrier(4)

    def load() -> None:
        start.wait(10)
        loaded.append(load_generated("value = object()\n", "test"))

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    del sys.modules[loaded[0].__name__]
    assert len({id(found) for found in loaded}) == 1


def test_text_that_fails_leaves_no_module(root: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        load_generated("1 / 0\n", "failing")
    assert not [name for name in sys.modules if "failing" in name]

"""Files of kernels are ignored if they are torn or damaged, or belong to another key or user."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fastdist.kernels.cpu.jit import object_store
from fastdist.kernels.cpu.jit.object_store import Stored, locked, read, write

KERNEL = Stored(b"code" * 50, "65536 4 4")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the user's folder, which is empty, and which is the only folder that is searched."""
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.setattr(object_store, "cache_directory", lambda _: str(folder))
    monkeypatch.setattr(object_store, "shipped_directory", lambda _: None)
    return folder


@pytest.fixture
def shipped(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an image, which has the kernel; the user's folder is empty."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    write("key", KERNEL)
    for path in own.iterdir():
        path.rename(folder / path.name)
    monkeypatch.setattr(object_store, "shipped_directory", lambda _: str(folder))
    return folder


def test_what_is_written_is_read_under_its_key_alone(own: Path) -> None:
    write("key", KERNEL)
    assert [read("key"), read("another")] == [KERNEL, None]
    assert [path.suffix for path in own.iterdir()] == [".object"]
    write("key", Stored(b"", "it needs Numba"))
    assert read("key") == Stored(b"", "it needs Numba")


def _with_a_hole(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[: middle - 16] + bytes(32) + content[middle + 16 :]


@pytest.mark.parametrize(
    "harm",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: content + b"\0",
        lambda content: bytes(len(content)),
        lambda content: random.Random(7).randbytes(len(content)),
        lambda content: content.replace(b"object 1", b"object 0"),
        _with_a_hole,
    ],
    ids=["empty", "half", "short", "long", "zeros", "random", "version", "hole"],
)
def test_a_torn_file_is_as_good_as_none_and_written_over(
    own: Path, harm: Callable[[bytes], bytes]
) -> None:
    write("key", KERNEL)
    [torn] = own.iterdir()
    torn.write_bytes(harm(torn.read_bytes()))
    assert read("key") is None
    write("key", KERNEL)
    assert read("key") == KERNEL


def test_a_file_under_the_name_of_another_kernel_is_not_taken(own: Path) -> None:
    write("key", KERNEL)
    [path] = own.iterdir()
    path.rename(object_store._path_of(str(own), "another"))
    assert read("another") is None


def test_files_of_another_user_are_as_good_as_none(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("key", KERNEL)
    monkeypatch.setattr(os, "geteuid", lambda: 4_711)
    assert read("key") is None


def test_what_neighbours_may_have_left_in_the_folder_is_neither_read_nor_waited_for(
    own: Path, tmp_path: Path
) -> None:
    write("key", KERNEL)
    [path] = own.iterdir()
    elsewhere = path.rename(tmp_path / "downloaded")
    path.symlink_to(elsewhere)
    assert read("key") is None  # complete and owned by this user, but a symbolic link
    path.unlink()
    os.mkfifo(path)
    assert read("key") is None
    path.unlink()
    path.mkdir()
    assert read("key") is None
    (path / "file").touch()
    write("key", KERNEL)  # no error, although a folder with a file has this name
    (path / "file").unlink()
    write("key", KERNEL)  # an empty folder is replaced
    assert read("key") == KERNEL
    path.chmod(0o666)
    assert read("key") is None
    path.chmod(0o644)
    assert read("key") == KERNEL
    with open(path, "r+b") as file:
        file.truncate(1 << 40)  # a sparse file: small on disk, large in memory
    assert read("key") is None


def test_a_lock_that_is_a_link_is_not_followed(own: Path, tmp_path: Path) -> None:
    path = Path(object_store._path_of(str(own), "key") + ".lock")
    path.symlink_to(tmp_path / "new")
    with locked("key"):
        assert not (tmp_path / "new").exists()


def test_what_killed_processes_left_is_removed_a_day_later(own: Path) -> None:
    names = ["a.tmp", "b.object.lock", "c.object", "d.tmp", "e.object.lock"]
    for name in names:
        (own / name).touch()
    for name in names[:3]:
        os.utime(own / name, (0, 0))
    write("key", KERNEL)
    assert {path.name for path in own.iterdir()} >= set(names[2:])
    assert not (own / "a.tmp").exists() and not (own / "b.object.lock").exists()


def test_a_link_in_what_was_shipped_is_followed(shipped: Path, tmp_path: Path) -> None:
    [path] = shipped.iterdir()
    path.symlink_to(path.rename(tmp_path / "of the image"))
    assert read("key") == KERNEL


def test_what_was_shipped_is_read_and_never_written_to(own: Path, shipped: Path) -> None:
    before = {path.name: path.read_bytes() for path in shipped.iterdir()}
    assert read("key") == KERNEL
    write("key", Stored(b"newer", ""))
    assert read("key") == Stored(b"newer", "")
    assert {path.name: path.read_bytes() for path in shipped.iterdir()} == before


def test_nothing_is_kept_where_there_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "cache_directory", lambda _: None)
    monkeypatch.setattr(object_store, "shipped_directory", lambda _: None)
    write("key", KERNEL)
    with locked("key"):
        assert read("key") is None


def test_a_disk_that_is_full_is_no_error(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    write("key", KERNEL)
    assert list(own.iterdir()) == []


def test_one_at_a_time_holds_the_lock_of_a_kernel_and_leaves_no_file(own: Path) -> None:
    order, begun = [], threading.Event()

    def compile_too() -> None:
        begun.set()
        with locked("key"):
            order.append("second")

    with locked("key"), locked("another"):
        other = threading.Thread(target=compile_too)
        other.start()
        assert begun.wait(10)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]
    assert list(own.iterdir()) == []


def test_the_lock_of_a_process_that_was_killed_is_free(own: Path) -> None:
    ready, write_end = os.pipe()
    child = os.fork()
    if not child:
        with locked("key"):
            os.write(write_end, b"1")
            signal.pause()
    assert os.read(ready, 1) == b"1"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(write_end)
    began = time.monotonic()
    with locked("key"):
        write("key", KERNEL)
    assert time.monotonic() - began < 10.0
    assert [path.suffix for path in own.iterdir()] == [".object"]


def test_a_lock_that_is_held_too_long_is_not_waited_for(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "_LOCKED_AT_MOST_S", 0.0)
    with locked("key"), locked("key"):
        write("key", KERNEL)
    assert read("key") == KERNEL

"""After an error, a full disk, a Ctrl-C or a kill -9, a file is either complete or missing."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fastdist.system import atomic_file as atomic
from fastdist.system.atomic_file import atomic_file

NOBODY = 65_534


def write(path: Path, data: bytes = b"new") -> None:
    with atomic_file(path) as file:
        file.write(data)


@pytest.fixture(params=["nameless", "named"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Select how the new file is created: without a name at first, or with a name."""
    if request.param == "named":
        monkeypatch.setattr(atomic.os, "O_TMPFILE", 0)


@pytest.mark.usefixtures("way")
def test_a_path_holds_what_was_written(tmp_path: Path) -> None:
    write(tmp_path / "new")
    write(tmp_path / "new", b"newer")
    assert (tmp_path / "new").read_bytes() == b"newer"
    assert os.listdir(tmp_path) == ["new"]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_in_the_block_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def write_half() -> None:
        with atomic_file(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(atomic.os, step, full)
    words = "No space left on device: a file could not be written, and [0-9]+ bytes are free there"
    with pytest.raises(OSError, match=words) as caught:
        write(path)
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(path)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]


@pytest.mark.usefixtures("way")
def test_a_file_that_is_too_large_says_how_large_it_would_be(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
    try:
        with (
            pytest.raises(OSError, match="File too large: a file of 9000 bytes could not"),
            atomic_file(path, 9000) as file,
        ):
            file.write(bytes(9000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]


@pytest.mark.usefixtures("way")
def test_a_new_file_has_the_mode_that_open_gives(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "ours")
        (tmp_path / "theirs").write_bytes(b"")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ours", "theirs")]
    assert modes == [0o640, 0o640]


@pytest.mark.usefixtures("way")
def test_an_old_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o604)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_a_link_stays_one_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "link").symlink_to("deep/target")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "deep" / "target").read_bytes() == b"new"
    assert os.listdir(tmp_path / "deep") == ["target"]


def test_folders_and_missing_folders_are_told(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write(tmp_path)
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "none" / "file")


def test_a_folder_that_takes_no_file_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(atomic.os, "open", refused)
    with pytest.raises(PermissionError, match="cannot create a file in the folder"):
        write(tmp_path / "file")


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write(pipe, b"through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_names_as_long_as_they_may_be_are_written(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 127)
    write(path)
    assert path.read_bytes() == b"new"


def test_a_killed_writer_without_a_name_leaves_nothing(tmp_path: Path) -> None:
    # The file system must support unnamed files; that of the tests' folder does.
    script = (
        "import os, signal, sys\n"
        "from fastdist.system.atomic_file import atomic_file\n"
        "with atomic_file(sys.argv[1]) as file:\n"
        "    file.write(b'x' * 5_000_000)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "f")], check=False)
    assert done.returncode == -signal.SIGKILL
    left = os.listdir(tmp_path)
    assert left == [] or not _has_nameless_files(tmp_path)


def _has_nameless_files(folder: Path) -> bool:
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR))
    except (OSError, AttributeError):
        return False
    return True


def test_a_full_device_is_named_with_the_size() -> None:
    words = "No space left on device: a file of 3 bytes could not be written: '/dev/full'"
    with pytest.raises(OSError, match=words) as caught, atomic_file("/dev/full", 3) as file:
        file.write(b"new")
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == "/dev/full"


def test_other_errors_of_a_file_keep_their_words() -> None:
    with pytest.raises(OSError, match=r"^mine$"), atomic.full_disk_named("x", 1):
        raise OSError("mine")
    named = OSError(errno.ENOSPC, "full", "other")
    with pytest.raises(OSError, match="full: 'other'"), atomic.full_disk_named("x", 1):
        raise named

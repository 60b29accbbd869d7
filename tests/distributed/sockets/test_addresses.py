"""Ports, private directories, and the address of this machine."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastdist.core.errors import AuthenticationError, FastdistError
from fastdist.distributed.sockets import (
    addresses,
    free_port,
    ipc_directory,
    ipc_endpoint,
    local_address_towards,
    runtime_directory,
    wait_until_free,
)
from fastdist.distributed.sockets.addresses import remove_ipc_directory
from tests.short_folders import short_folder


def test_a_free_port_can_be_bound() -> None:
    with socket.create_server(("127.0.0.1", free_port())):
        pass


def test_a_port_is_waited_for_until_nobody_listens_there() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    assert not wait_until_free("127.0.0.1", port, 0.02)
    closing = threading.Timer(0.05, listener.close)
    closing.start()
    assert wait_until_free("127.0.0.1", port, 5.0)
    closing.join()
    assert wait_until_free("0.0.0.0", port, 0.0)
    assert not wait_until_free("192.0.2.1", port, 5.0)  # not an address of this machine


def test_loopback_is_reached_from_loopback() -> None:
    assert local_address_towards("127.0.0.1", 4410) == "127.0.0.1"
    assert local_address_towards("localhost", 4410) in ("127.0.0.1", "::1")


def test_a_host_without_an_address_is_named() -> None:
    with pytest.raises(FastdistError, match=r"'no\.\.name'.*FASTDIST_ADDRESS"):
        local_address_towards("no..name", 4410)


@pytest.fixture
def short() -> Iterator[Path]:
    """Yield a directory with a short name; the path of a socket file may have at most 107 bytes."""
    with short_folder() as path:
        yield Path(path)


@pytest.fixture
def base(short: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    return short


def test_the_runtime_directory_is_this_users_alone(base: Path) -> None:
    assert runtime_directory() == str(base / "fastdist")
    assert stat.S_IMODE(os.stat(base / "fastdist").st_mode) == 0o700
    assert runtime_directory() == str(base / "fastdist")


def test_without_xdg_it_lies_in_the_temporary_directory(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("TMPDIR", str(short))
    assert runtime_directory() == str(short / f"fastdist-{os.getuid()}")


def test_a_folder_whose_name_zeromq_does_not_take_is_not_used(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    latin = os.fsdecode(bytes(short) + b"/\xe9")
    os.mkdir(latin)
    monkeypatch.setenv("XDG_RUNTIME_DIR", latin)
    monkeypatch.setenv("TMPDIR", str(short))
    assert runtime_directory() == str(short / f"fastdist-{os.getuid()}")


def test_a_directory_open_to_others_is_refused(base: Path) -> None:
    (base / "fastdist").mkdir()
    os.chmod(base / "fastdist", 0o755)
    with pytest.raises(AuthenticationError, match="mode 0700, but is drwxr-xr-x"):
        runtime_directory()


def test_a_directory_of_another_user_is_refused(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Set the path explicitly: by default another user would get a different directory, which the
    # test would leave behind.
    monkeypatch.setenv("FASTDIST_RUNTIME_DIR", runtime_directory())
    monkeypatch.setattr(os, "getuid", lambda: 12_345)
    with pytest.raises(AuthenticationError, match="directory of user 12345"):
        runtime_directory()


def test_a_link_in_its_place_is_refused(base: Path) -> None:
    (base / "elsewhere").mkdir(0o700)
    (base / "fastdist").symlink_to(base / "elsewhere")
    with pytest.raises(AuthenticationError, match="lrwxrwxrwx"):
        runtime_directory()


def test_a_path_too_long_for_a_unix_socket_is_named() -> None:
    with pytest.raises(FastdistError, match="longer than a unix socket's 103 bytes"):
        ipc_endpoint("x" * 100)


CHILD = """
import sys
from fastdist.distributed.sockets import ipc_directory
print(ipc_directory(), flush=True)
sys.stdin.read()
"""


def start_child() -> tuple[subprocess.Popen[str], Path]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    child = subprocess.Popen([sys.executable, "-c", CHILD], text=True, **pipes)
    assert child.stdout is not None
    return child, Path(child.stdout.readline().strip())


@pytest.mark.one_in(3)
def test_the_ipc_directory_goes_when_its_process_ends() -> None:
    child, path = start_child()
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    child.communicate("", timeout=20)
    assert not path.exists()


@pytest.mark.one_in(3)
def test_the_ipc_directory_of_a_killed_process_is_removed_by_the_next_one() -> None:
    killed, orphan = start_child()
    alive, kept = start_child()
    killed.kill()
    killed.communicate(timeout=20)
    assert orphan.exists()
    remove_ipc_directory()
    own = Path(ipc_directory())
    assert not orphan.exists()
    assert kept.exists() and own.exists()
    alive.communicate("", timeout=20)
    remove_ipc_directory()
    assert not own.exists()


def test_an_ipc_directory_is_there_though_another_process_took_it_for_an_orphans(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove_ipc_directory()
    lock = fcntl.flock
    early = [1]

    def flock(file: int, kind: int) -> None:
        if kind == fcntl.LOCK_EX and early:
            early.pop()
            addresses._remove_orphans(str(base / "fastdist"))  # as another process might do now
        lock(file, kind)

    monkeypatch.setattr(fcntl, "flock", flock)
    path = Path(ipc_directory())
    assert not early
    addresses._remove_orphans(str(base / "fastdist"))
    assert path.exists()
    assert list((base / "fastdist").glob("ipc-*")) == [path]
    remove_ipc_directory()

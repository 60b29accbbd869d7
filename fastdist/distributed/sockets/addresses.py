"""Ports, private directories for ipc sockets, and this machine's address for other machines."""

from __future__ import annotations

import atexit
import errno
import fcntl
import os
import socket as standard_socket
import stat
import threading
import time

from fastdist.core.errors import AuthenticationError, FastdistError, RendezvousError

# The path of a Unix socket must fit into sockaddr_un: 107 bytes on Linux, 103 on macOS.
MAX_IPC_PATH = 103
# The longest path below a base folder: the folder of the user or job, the folder of the process,
# and the socket.
_BELOW_BASE = len("/fastdist-4294967294/ipc-4194304-123456/rpc-123456")
_LOCK_FILE = "owner.lock"
# The pause between checks of a port that is about to become free.
_LOOK_S = 0.0005
_ALL_ADDRESSES = ("0.0.0.0", "::")
_MAPPED = bytes(10) + b"\xff\xff"  # begins an IPv6 address that stands for an IPv4 address

# Guards _ipc_directory: the process id, the path, and the descriptor of the lock.
_directory_lock = threading.Lock()
_ipc_directory: tuple[int, str, int] | None = None


def packed_address(text: str) -> bytes | None:
    """Return the 4 or 16 bytes of a numeric address, and None for a name.

    An IPv6 address that stands for an IPv4 address has the 4 bytes of the latter.
    """
    family = standard_socket.AF_INET6 if ":" in text else standard_socket.AF_INET
    try:
        return standard_socket.inet_pton(family, text).removeprefix(_MAPPED)
    except (OSError, ValueError):
        return None


def free_port(host: str = "127.0.0.1") -> int:
    """Return a TCP port of `host` that was free a moment ago; a bind to port 0 is safer."""
    family = standard_socket.AF_INET6 if ":" in host else standard_socket.AF_INET
    with standard_socket.socket(family, standard_socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def wait_until_free(host: str, port: int, wait_s: float) -> bool:
    """Wait until nothing listens at a port of this machine; return False at the timeout.

    libzmq frees the port of a closed socket some time after close, on another thread and without a
    notification. So a bind to the port may fail right after the close.
    """
    family = standard_socket.AF_INET6 if ":" in host else standard_socket.AF_INET
    deadline, pause = time.monotonic() + wait_s, threading.Event()
    while True:
        with standard_socket.socket(family, standard_socket.SOCK_STREAM) as probe:
            # libzmq sets the same option. With this option only a listener blocks the port, and old
            # connections do not.
            probe.setsockopt(standard_socket.SOL_SOCKET, standard_socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                    return False
            else:
                return True
        pause.wait(_LOOK_S)


def resolvable(host: str) -> str | bytes:
    """Return a host's name in the form for which getaddrinfo loads no Unicode tables (0.3 MB).

    getaddrinfo loads these tables for every str, but not for bytes.
    """
    return host.encode() if host.isascii() else host


def local_address_towards(host: str, port: int) -> str:
    """Return this machine's address for packets to `host`, from the routing table; sends nothing.

    Raises  FastdistError if `host` has no address or there is no route to it
    """
    try:
        family, kind, protocol, _, address = standard_socket.getaddrinfo(
            resolvable(host), port or 1, type=standard_socket.SOCK_DGRAM
        )[0]
        with standard_socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # connecting a datagram socket only queries the routing table
            return str(probe.getsockname()[0])
    except (OSError, UnicodeError) as error:
        raise FastdistError(
            f"no address of this machine leads to {host!r}: {error}; "
            "set FASTDIST_ADDRESS to the one to use"
        ) from error


def require_own_address(what: str, address: str) -> None:
    """Check an address that this machine will bind and publish; `what` names its source in errors.

    Raises  RendezvousError unless it is an address of this machine, and not a wildcard
    """
    try:
        candidates = standard_socket.getaddrinfo(
            resolvable(address), 0, type=standard_socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as error:
        raise RendezvousError(f"{what}: cannot resolve the address {address!r}: {error}") from error
    for family, kind, protocol, _, where in candidates:
        if where[0] in _ALL_ADDRESSES or address == "*":
            raise RendezvousError(
                f"{what}: {address!r} means all addresses of this machine, so others would not "
                "know where to connect; give the one by which they reach it"
            )
        with standard_socket.socket(family, kind, protocol) as probe:
            try:
                probe.bind(where)
            except OSError:
                continue
            return
    raise RendezvousError(f"{what}: {address!r} is not an address of this machine")


def runtime_directory() -> str:
    """Return this user's directory for fastdist's private files (mode 0700); create it if missing.

    Raises  AuthenticationError if it belongs to another user or is accessible to others
    Note    a launcher sets FASTDIST_RUNTIME_DIR to a private directory for its workers, and removes
            it with the job even if they are killed
    """
    path = os.environ.get("FASTDIST_RUNTIME_DIR") or _default_runtime_directory()
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass  # created by us earlier, or by an attacker: owner and mode are checked next
    found = os.lstat(path)
    if (
        not stat.S_ISDIR(found.st_mode)
        or found.st_uid != os.getuid()
        or stat.S_IMODE(found.st_mode) & 0o077
    ):
        raise AuthenticationError(
            f"{path!r} must be a directory of user {os.getuid()} with mode 0700, "
            f"but is {stat.filemode(found.st_mode)} of user {found.st_uid}; "
            "remove it, or set XDG_RUNTIME_DIR to a directory of your own"
        )
    return path


def _default_runtime_directory() -> str:
    base = private_base()
    if base == os.environ.get("XDG_RUNTIME_DIR"):
        return os.path.join(base, "fastdist")
    return os.path.join(base, f"fastdist-{os.getuid()}")


def private_base() -> str:
    """Return the parent of this user's directories: XDG_RUNTIME_DIR, else TMPDIR's folder.

    The length of a Unix socket's path is limited, so a folder with a long path is not used. If no
    folder of the environment is usable, the parent is /tmp.

    Raises  FileNotFoundError if no folder is writable
    """
    usual = [os.environ.get(name) or "" for name in ("XDG_RUNTIME_DIR", "TMPDIR", "TEMP", "TMP")]
    for folder in (*usual, "/tmp"):
        if _is_usable(folder) and len(os.fsencode(folder)) <= MAX_IPC_PATH - _BELOW_BASE:
            return folder
    import tempfile  # on demand: 0.4 MB of modules that workers seldom need

    return tempfile.gettempdir()


def _is_usable(folder: str) -> bool:
    """Return whether `folder` is writable, and belongs to this user or has the sticky bit."""
    try:
        folder.encode()  # ZeroMQ paths must be UTF-8
        found = os.stat(folder)
    except (OSError, UnicodeEncodeError):
        return False
    is_safe = found.st_uid == os.getuid() or bool(found.st_mode & stat.S_ISVTX)
    return stat.S_ISDIR(found.st_mode) and is_safe and os.access(folder, os.W_OK | os.X_OK)


def ipc_directory() -> str:
    """Return the directory for this process's Unix sockets; created on first use, removed at exit.

    Note    a killed process cannot remove its directory, so the next process removes it. A lock on
            a file in the directory shows that the owner lives. A process id would not show this to
            a container that shares only the file system.
    """
    global _ipc_directory
    with _directory_lock:
        if _ipc_directory is None or _ipc_directory[0] != os.getpid():
            parent = runtime_directory()
            _remove_orphans(parent)
            path, lock = _make_locked_directory(parent)
            if _ipc_directory is None:
                atexit.register(remove_ipc_directory)
            _ipc_directory = (os.getpid(), path, lock)
        return _ipc_directory[1]


def ipc_endpoint(name: str) -> str:
    """Return the ipc:// endpoint for a new Unix socket of this process.

    Raises  FastdistError if the path is too long for a Unix socket
    """
    path = os.path.join(ipc_directory(), name)
    if len(os.fsencode(path)) > MAX_IPC_PATH:
        raise FastdistError(
            f"the path {path!r} is longer than a unix socket's {MAX_IPC_PATH} bytes; "
            "set XDG_RUNTIME_DIR or TMPDIR to a shorter directory"
        )
    return f"ipc://{path}"


def remove_ipc_directory() -> None:
    """Remove this process's ipc directory; new connections to its sockets fail afterwards."""
    global _ipc_directory
    with _directory_lock:
        # A forked child inherits the exit hook, but the directory belongs to its parent.
        if _ipc_directory is not None and _ipc_directory[0] == os.getpid():
            _remove(_ipc_directory[1])
            os.close(_ipc_directory[2])
            _ipc_directory = None
            atexit.unregister(remove_ipc_directory)


def _make_locked_directory(parent: str) -> tuple[str, int]:
    """Create an ipc directory; return its path, and a descriptor whose lock marks it as in use."""
    while True:
        path = os.path.join(parent, f"ipc-{os.getpid()}-{os.urandom(3).hex()}")
        os.mkdir(path, 0o700)
        file = os.path.join(path, _LOCK_FILE)
        lock = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Before the lock was taken, another process may have removed the directory as an orphan.
        if os.path.exists(file):
            return path, lock
        os.close(lock)


def _remove_orphans(parent: str) -> None:
    """Remove the ipc directories of processes that ended without removing them."""
    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        if not name.startswith("ipc-"):
            continue
        try:
            lock = os.open(os.path.join(path, _LOCK_FILE), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # the directory is being created or removed
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
        except BlockingIOError:
            pass  # the owner lives
        finally:
            os.close(lock)


def _remove(path: str) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)

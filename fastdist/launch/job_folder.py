"""One private folder a job: the secret, the socket files; it goes when the job ends."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile

VARIABLE = "FASTDIST_RUNTIME_DIR"


class JobFolder:
    """A folder of mode 0700 whose path the workers find in FASTDIST_RUNTIME_DIR."""

    def __init__(self) -> None:
        # Short, for a socket file's path may not be longer than 107 bytes.
        self.path = tempfile.mkdtemp(prefix="fastdist-", dir=_parent())

    def write_private(self, name: str, text: str) -> str:
        """Write a file that only this user may read, and return its path."""
        path = os.path.join(self.path, name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="ascii") as file:
            file.write(text)
        return path

    def remove(self) -> None:
        """Remove the folder and all in it; workers may have left socket files behind."""
        shutil.rmtree(self.path, ignore_errors=True)


def _parent() -> str | None:
    folder = os.environ.get("XDG_RUNTIME_DIR")
    if not folder:
        return None
    try:
        status = os.stat(folder)
    except OSError:
        return None
    usable = status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode)
    return folder if usable and os.access(folder, os.W_OK | os.X_OK) else None

"""A private folder per job, for the secret and socket files; it is removed at the job's end."""

from __future__ import annotations

import os
import shutil
import tempfile

from fastdist.core.errors import StoreError
from fastdist.distributed.sockets.addresses import private_base

VARIABLE = "FASTDIST_RUNTIME_DIR"
# A second variable with the same path. Workers create socket files there for `fastdist top`.
MONITOR_VARIABLE = "FASTDIST_MONITOR_DIR"


class JobFolder:
    """A folder of mode 0700; workers get its path in FASTDIST_RUNTIME_DIR.

    Raises  StoreError if the folder cannot be created anywhere
    """

    def __init__(self) -> None:
        try:
            self.path = tempfile.mkdtemp(prefix="fastdist-", dir=private_base())
        except OSError as error:
            raise StoreError(
                f"no folder for the job's secret and sockets: {error.strerror}: set TMPDIR or "
                "XDG_RUNTIME_DIR to a folder of your own"
            ) from error

    def write_private(self, name: str, text: str) -> str:
        """Write a file that only this user may read, and return its path."""
        path = os.path.join(self.path, name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="ascii") as file:
            file.write(text)
        return path

    def remove(self) -> None:
        """Remove the folder with its contents; workers may have left socket files."""
        shutil.rmtree(self.path, ignore_errors=True)

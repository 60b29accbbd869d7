"""The store of a single process: a dictionary with the manners of the others."""

from __future__ import annotations

from fastdist.distributed.sockets import JobSecret

from .access import security_kind
from .local_store import LocalStore
from .store import DEFAULT_TIMEOUT, Timeout


class HashStore(LocalStore):
    """A store among the threads of one process; for tests, and for a world of one."""

    def __init__(self, timeout: Timeout = DEFAULT_TIMEOUT) -> None:
        super().__init__(timeout)
        self._job_secret: JobSecret | None = None
        if security_kind(None) == "curve":
            # Nobody needs to find it: all who use this store are in this process.
            self._job_secret = JobSecret.from_environment() or JobSecret.generate()

    @property
    def job_secret(self) -> JobSecret | None:
        """The given secret, else a new one; None where the job has none."""
        return self._job_secret

    def __repr__(self) -> str:
        return "HashStore()"

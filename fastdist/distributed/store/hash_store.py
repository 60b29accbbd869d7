"""The store of a single process: a dictionary with the manners of the others."""

from __future__ import annotations

from fastdist.distributed.sockets import JobSecret

from .access import SecretSource, choose_source
from .local_store import LocalStore
from .store import DEFAULT_TIMEOUT, Timeout


class HashStore(LocalStore):
    """A store among the threads of one process; for tests, and for a world of one."""

    def __init__(self, timeout: Timeout = DEFAULT_TIMEOUT) -> None:
        super().__init__(timeout)
        source, given = choose_source("127.0.0.1", None, None)
        # Nobody needs to find it: all who use this store are in this process.
        made = JobSecret.generate() if source is SecretSource.PUBLISHED else None
        self._job_secret = given or made

    @property
    def job_secret(self) -> JobSecret | None:
        """The secret that was given, else one of its own; None where security is 'none'."""
        return self._job_secret

    def __repr__(self) -> str:
        return "HashStore()"

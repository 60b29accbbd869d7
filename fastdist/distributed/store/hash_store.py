"""The store of a single process: a dictionary with the interface of the other stores."""

from __future__ import annotations

from fastdist.distributed.sockets import JobSecret

from .access import security_kind
from .answers import Timeout
from .local_store import LocalStore
from .store import DEFAULT_TIMEOUT


class HashStore(LocalStore):
    """A store for the threads of one process; for tests, and for a world of size one.

    Args:
        timeout: The default timeout of calls that wait: a timedelta, or seconds.
    """

    def __init__(self, timeout: Timeout = DEFAULT_TIMEOUT) -> None:
        super().__init__(timeout)
        self._job_secret: JobSecret | None = None
        if security_kind(None) == "curve":
            # The secret is not published, because all users of this store are in this process.
            self._job_secret = JobSecret.from_environment() or JobSecret.generate()

    @property
    def job_secret(self) -> JobSecret | None:
        """The given secret, else a new one; None if security is not CURVE."""
        return self._job_secret

    def __repr__(self) -> str:
        return "HashStore()"

"""The job secret for the launcher: given by the user, or created for a job on one node."""

from __future__ import annotations

from collections.abc import Mapping

from fastdist.core.errors import AuthenticationError
from fastdist.distributed.sockets import JobSecret
from fastdist.launch.job_folder import JobFolder

_FILE_VARIABLE = "FASTDIST_JOB_SECRET_FILE"
_TEXT_VARIABLE = "FASTDIST_JOB_SECRET"


def find_secret(nodes: int, environment: Mapping[str, str]) -> JobSecret | None:
    """Return the given secret, a new one for a single node, or None if the job needs none.

    A job needs none if security is switched off, or each rank has a certificate.

    Raises  AuthenticationError if the given secret is invalid, or several nodes have none
    """
    if environment.get("FASTDIST_SECURITY") in ("none", "certs"):
        return None
    given = JobSecret.from_environment(environment)
    if given is not None:
        return given
    if nodes == 1:
        return JobSecret.generate("made by fastdist run")
    raise AuthenticationError(
        f"a job of {nodes} nodes needs one secret on all of them: put 64 hexadecimal digits into a "
        f"file of mode 0600 (`openssl rand -hex 32` makes them), and set {_FILE_VARIABLE} to its "
        f"path, or {_TEXT_VARIABLE} to the digits, on every node"
    )


def secret_variables(
    secret: JobSecret | None, folder: JobFolder, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return variables for workers in addition to their inherited environment.

    Note  a created secret is passed in a file of mode 0600, because `ps` can show an environment
    """
    if secret is None or environment.get(_FILE_VARIABLE) or environment.get(_TEXT_VARIABLE):
        return {}
    return {_FILE_VARIABLE: folder.write_private("secret", secret.hex() + "\n")}

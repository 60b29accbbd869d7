"""The job secret as the launcher sees it: given by the user, or made for a job of one node."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from fastdist.launch.job_folder import JobFolder

VARIABLE = "FASTDIST_JOB_SECRET"
FILE_VARIABLE = "FASTDIST_JOB_SECRET_FILE"
_SECURITY = "FASTDIST_SECURITY"


def require_secret_for(nodes: int, environment: Mapping[str, str]) -> None:
    """Raise ValueError if several nodes would start without a secret that they share."""
    if nodes == 1 or is_given(environment) or environment.get(_SECURITY) == "none":
        return
    raise ValueError(
        f"a job of {nodes} nodes needs one secret on all of them: put 64 hexadecimal digits into a "
        f"file of mode 0600 (`openssl rand -hex 32` makes them), and set {FILE_VARIABLE} to its "
        f"path, or {VARIABLE} to the digits, on every node"
    )


def is_given(environment: Mapping[str, str]) -> bool:
    """Say whether the user has given a job secret."""
    return bool(environment.get(VARIABLE) or environment.get(FILE_VARIABLE))


def secret_variables(folder: JobFolder, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what workers must be told; makes a secret of 32 random bytes where none is given.

    Note  a secret that was made travels in a file of mode 0600: an environment can be read by `ps`
    """
    if is_given(environment) or environment.get(_SECURITY) == "none":
        return {}
    return {FILE_VARIABLE: folder.write_private("secret", secrets.token_hex(32) + "\n")}

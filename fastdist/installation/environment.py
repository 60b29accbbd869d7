"""The Python environment that gets the distribution `torch`, and the checks that it is suitable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from typing import NamedTuple

from ..as_torch import FOLDER
from ..core.errors import FastdistError

_PIP_FILE = "pip.ini" if os.name == "nt" else "pip.conf"
_PROBE_TIMEOUT_S = 60
# Prints where Python finds fastdist and torch. With -E Python ignores PYTHONPATH, and with -P the
# current folder.
_PROBE = """
import importlib.util, json
def origin(name):
    spec = importlib.util.find_spec(name)
    if spec is None:
        return None
    return spec.origin or next(iter(spec.submodule_search_locations or ()), None)
print(json.dumps([origin("fastdist"), origin("torch")]))
"""


class InstallError(FastdistError):
    """The distribution `torch` cannot be installed into this environment, or removed from it."""


class Environment(NamedTuple):
    """The folders of a Python environment: site-packages, and the folder of its pip.conf."""

    site_packages: str
    prefix: str

    @property
    def pip_file(self) -> str:
        """The pip configuration file of this environment."""
        return os.path.join(self.prefix, _PIP_FILE)


def this_environment() -> Environment:
    """Return the folders of the running Python."""
    return Environment(sysconfig.get_path("purelib"), sys.prefix)


def require_suitable(environment: Environment) -> None:
    """Check that `torch` may be installed into the running Python's environment.

    Raises  InstallError if the operating system manages the environment, if its folders are not
            writable, or if a new Python there finds another fastdist, no fastdist, or another torch
    """
    _require_not_managed(environment)
    _require_writable(environment)
    _require_modules(environment)


def _require_not_managed(environment: Environment) -> None:
    marker = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    if sys.prefix == sys.base_prefix and os.path.exists(marker):
        raise InstallError(
            f"the operating system manages this Python ({marker}), so nothing was installed into "
            f"{environment.site_packages}; {_OWN_ENVIRONMENT}"
        )


_OWN_ENVIRONMENT = (
    "make an environment with `python3 -m venv .venv`, install fastdist there, and run its "
    "`fastdist as-torch --install`"
)


def _require_writable(environment: Environment) -> None:
    wanted = [environment.site_packages, environment.prefix]
    if os.path.exists(environment.pip_file):
        wanted.append(environment.pip_file)
    for path in wanted:
        if not os.access(path, os.W_OK):
            raise InstallError(f"{path} cannot be written by this user; {_OWN_ENVIRONMENT}")


def _require_modules(environment: Environment) -> None:
    fastdist, torch = _found_by_plain_python()  # torch is a folder if it has no __init__.py
    own = os.path.dirname(FOLDER)
    if fastdist is None or not _same(os.path.dirname(fastdist), own):
        found = "none" if fastdist is None else f"another one, {fastdist}"
        raise InstallError(
            f"this fastdist is in {own}, but without PYTHONPATH {sys.executable} finds {found}, so "
            "`import torch` would fail; install this one into the environment first: "
            f"{sys.executable} -m pip install -e {os.path.dirname(own)!r}"
        )
    # A torch in site-packages is accepted here, because distribution.py checks it.
    mine = [os.path.join(folder, "torch") for folder in (environment.site_packages, FOLDER)]
    if torch is not None and not any(
        _same(found, path) for found in (torch, os.path.dirname(torch)) for path in mine
    ):
        raise InstallError(
            f"{sys.executable} imports another torch, from {torch}; an environment has one torch: "
            "remove that one, or use an environment that does not see it"
        )


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _found_by_plain_python() -> tuple[str | None, str | None]:
    """Return the files from which a new Python in this environment imports fastdist and torch."""
    command = [sys.executable, "-E", "-P", "-c", _PROBE]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False
    )
    try:
        fastdist, torch = json.loads(done.stdout)
    except ValueError:
        reason = done.stderr.strip() or f"exit status {done.returncode}"
        raise InstallError(f"{sys.executable} did not start: {reason}") from None
    return fastdist, torch

"""Checks whether the installed `torch` is still fastdist's, for a note at program start."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ..as_torch import FOLDER
from ..core.version import TORCH_VERSION
from . import constraint
from .environment import Environment, this_environment

_INSTALL = "`fastdist as-torch --install`"
_UNINSTALL = "`fastdist as-torch --uninstall`"


def note(environment: Environment | None = None, path: Sequence[str] | None = None) -> str | None:
    """Return a note if fastdist's `torch` was installed here and has changed; otherwise None.

    `path` has the folders from which Python imports, by default `sys.path`.
    """
    environment = environment or this_environment()
    folder = environment.site_packages
    if not os.path.exists(constraint.file_of(environment)):
        return None
    # Imported here, so that programs start fast in environments without the distribution.
    from . import distribution

    given = list(sys.path if path is None else path)
    # Python imports torch from the first folder that has one. So folders after site-packages are
    # not checked.
    before = given[: given.index(folder)] if folder in given else given
    for place in [folder, *before]:
        if os.path.isdir(place) and not _same(place, FOLDER):
            for one in distribution.find(place):
                if not one.is_ours:
                    return (
                        f"torch {one.version} in {place} replaced the torch that {_INSTALL} wrote: "
                        "plain `python` imports that one now. To put fastdist's back, run "
                        f"`pip uninstall torch` and {_INSTALL}; to keep the other, {_UNINSTALL}"
                    )
    versions = [one.version for one in distribution.find(folder)]
    if not versions or not distribution.is_there(folder):
        return (
            f"the torch that {_INSTALL} wrote is no longer in {folder}, but pip still refuses any "
            f"other; run {_INSTALL} to put it back, or {_UNINSTALL} to lift that"
        )
    if str(TORCH_VERSION) not in versions:
        return (
            f"the installed torch says version {versions[0]}, and this fastdist is "
            f"{TORCH_VERSION}; run {_INSTALL} again"
        )
    return None


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)

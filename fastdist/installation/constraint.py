"""The constraint `torch==...+fastdist`: its file, and the variables that pass it to pip and uv."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..as_torch import FOLDER
from ..core.version import TORCH_VERSION
from . import pip_settings
from .environment import Environment, InstallError, this_environment

FILE_NAME = "fastdist_torch_constraint.txt"
# The constraint file for pip and uv under `as-torch` if the environment does not contain one.
SHIPPED = os.path.join(FOLDER, FILE_NAME)
UV_VARIABLE = "UV_CONSTRAINT"
_SCHEME = re.compile(r"(?:https?|file):", re.IGNORECASE)


def file_of(environment: Environment) -> str:
    """Return the path of the environment's constraint file."""
    return os.path.join(environment.site_packages, FILE_NAME)


def url_of(path: str) -> str:
    """Return a path as a URL, which pip and uv accept in lists that are separated by spaces."""
    return Path(path).as_uri()


def text_with(hidden: Sequence[str]) -> str:
    """Return the text of the constraint file. It refers to the constraint files in `hidden`.

    Pythons of several versions may have the same prefix, and so the same pip.conf. Therefore the
    constraint applies only to this Python's version.
    """
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    lines = [
        "# Written by `fastdist as-torch --install`; `fastdist as-torch --uninstall` removes it.",
        "# `torch` in this environment is fastdist; pip and uv do not replace it by PyTorch.",
        f'torch=={TORCH_VERSION} ; python_version == "{python}"',
    ]
    if hidden:
        lines.append("# The constraints of pip's other configurations, which pip.conf here hides:")
        lines += [f"-c {_absolute(word)}" for word in hidden]
    return "".join(f"{line}\n" for line in lines)


def _absolute(word: str) -> str:
    return word if _SCHEME.match(word) else url_of(os.path.abspath(word))


def variables_for(arguments: Sequence[str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that pass the constraint to `python ARGUMENTS`, if that runs
    pip or uv. They also contain the constraints that are in effect without them.
    """
    module = _module_of(arguments)
    if module not in ("pip", "uv"):
        return {}
    environment = this_environment()
    installed = file_of(environment)
    ours = url_of(installed if os.path.exists(installed) else SHIPPED)
    if module == "uv":
        words = variables.get(UV_VARIABLE, "").split()
        return {UV_VARIABLE: " ".join(word for word in dict.fromkeys([*words, ours]))}
    try:
        found = pip_settings.in_effect(environment, variables).words
    except InstallError:
        # pip itself reports the invalid configuration, and then exits.
        found = ()
    return {pip_settings.VARIABLE: " ".join(dict.fromkeys([*found, ours]))}


def _module_of(arguments: Sequence[str]) -> str | None:
    """Return the module that Python runs with these arguments; None for a script or `-c`."""
    given = iter(arguments)
    for argument in given:
        if not argument.startswith("-") or argument == "-":
            return None
        if argument.startswith("--"):
            if argument == "--check-hash-based-pycs":
                next(given, None)
            continue
        for at, letter in enumerate(argument[1:], start=2):
            rest = argument[at:]
            if letter == "c":
                return None
            if letter == "m":
                return rest or next(given, None)
            if letter in "WX":
                if not rest:
                    next(given, None)
                break
    return None

"""The constraints that pip would read here, by the rules in pip's documentation.

pip reads several levels: the global files, the user's files, the environment's pip.conf, the file
that PIP_CONFIG_FILE names, and the variable PIP_CONSTRAINT. Each level overrides the previous one.
The section [install] of any file overrides the section [global] of all files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from . import pip_file
from .environment import Environment

VARIABLE = "PIP_CONSTRAINT"
FILE_VARIABLE = "PIP_CONFIG_FILE"
_KEYS = (f"{pip_file.SECTION}.{pip_file.OPTION}", f"global.{pip_file.OPTION}")


class Constraints(NamedTuple):
    """Paths and URLs of constraint files, and the variable or file that lists them."""

    words: tuple[str, ...] = ()
    origin: str = ""


def in_effect(environment: Environment, variables: Mapping[str, str]) -> Constraints:
    """Return the constraints that `pip install` uses.

    Raises  InstallError if one of the files is not a valid configuration
    """
    words = tuple(variables.get(VARIABLE, "").split())
    if words:
        return Constraints(words, VARIABLE)
    if variables.get(FILE_VARIABLE) == os.devnull:
        return Constraints((), FILE_VARIABLE)
    texts = dict(_texts_below(environment, variables))
    texts[environment.pip_file] = _text(environment.pip_file)
    extra = variables.get(FILE_VARIABLE)
    if extra:
        texts.pop(extra, None)
        texts[extra] = _text(extra)
    return _last_of(texts)


def hidden_by(environment: Environment, site_text: str, variables: Mapping[str, str]) -> list[str]:
    """Return the constraints that a value in the environment's [install] section would override.

    `site_text` is the environment's pip.conf without that value.

    Raises  InstallError if one of the files is not a valid configuration
    """
    own = pip_file.parse(site_text, environment.pip_file).get(_KEYS[0], "")
    if own.split():
        return []
    texts = dict(_texts_below(environment, variables))
    texts[environment.pip_file] = site_text
    return list(_last_of(texts).words)


def _last_of(texts: Mapping[str, str]) -> Constraints:
    """Return the constraints that are in effect. `texts` has the files by increasing priority."""
    found: dict[str, Constraints] = {}
    for path, text in texts.items():
        values = pip_file.parse(text, path)
        found |= {
            key: Constraints(tuple(values[key].split()), path) for key in _KEYS if key in values
        }
    return next((found[key] for key in _KEYS if key in found and found[key].words), Constraints())


def _texts_below(
    environment: Environment, variables: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each configuration file that the environment's overrides."""
    name = os.path.basename(environment.pip_file)
    home = os.path.expanduser("~")
    folders = [*_global_folders(variables)]
    extra = variables.get(FILE_VARIABLE)
    if not (extra and os.path.exists(extra)):
        folders += [os.path.join(home, ".pip"), _user_folder(home, variables)]
    for folder in folders:
        path = os.path.join(folder, name)
        yield path, _text(path)


def _global_folders(variables: Mapping[str, str]) -> list[str]:
    if sys.platform == "darwin":
        return ["/Library/Application Support/pip"]
    roots = variables.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    return [*(os.path.join(root, "pip") for root in roots.split(os.pathsep) if root), "/etc"]


def _user_folder(home: str, variables: Mapping[str, str]) -> str:
    library = os.path.join(home, "Library", "Application Support", "pip")
    if sys.platform == "darwin" and os.path.isdir(library):
        return library
    root = variables.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return os.path.join(root, "pip")


def _text(path: str) -> str:
    try:
        return pip_file.read_text(path)
    except OSError:
        # pip skips files that it cannot open.
        return ""

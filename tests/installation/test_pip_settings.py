"""The effective constraints are those that pip reads from configuration files and variables."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastdist.installation import pip_settings
from fastdist.installation.environment import Environment
from fastdist.installation.pip_settings import Constraints

GLOBAL, USER, SITE, EXTRA = "xdg/pip/pip.conf", "home/.config/pip/pip.conf", "v/pip.conf", "x.conf"
IN_INSTALL, IN_GLOBAL = "[install]\nconstraint = {}\n", "[global]\nconstraint = {}\n"


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_DIRS": str(tmp_path / "xdg")}


def environment(folder: Path, **files: str) -> Environment:
    """Write configuration files; the first letter of a constraint names its level."""
    for path, text in zip((GLOBAL, USER, SITE, EXTRA), ("g", "u", "s", "x"), strict=True):
        if text in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(files[text].format(f"{text}.txt other-{text}.txt"))
    return Environment(str(folder / "v" / "site"), str(folder / "v"))


# The files of each level, and the level whose constraint is effective.
LEVELS: list[tuple[dict[str, str], str]] = [
    ({}, ""),
    ({"g": IN_GLOBAL}, "g"),
    ({"g": IN_GLOBAL, "u": IN_GLOBAL}, "u"),
    ({"g": IN_INSTALL, "u": IN_GLOBAL}, "g"),
    ({"u": IN_INSTALL, "s": IN_GLOBAL}, "u"),
    ({"u": IN_INSTALL, "s": IN_INSTALL}, "s"),
    ({"u": IN_INSTALL, "s": "[install]\nconstraint =\n"}, ""),
    ({"g": IN_GLOBAL, "s": "[install]\nconstraint =\n"}, "g"),
]


@pytest.mark.parametrize(("files", "level"), LEVELS)
def test_the_strongest_level_holds(
    files: dict[str, str], level: str, tmp_path: Path, variables: dict[str, str]
) -> None:
    found = pip_settings.in_effect(environment(tmp_path, **files), variables)
    assert list(found.words) == ([f"{level}.txt", f"other-{level}.txt"] if level else [])


def test_pip_agrees(tmp_path: Path, variables: dict[str, str]) -> None:
    """Compare with pip's own configuration on all levels, except that of the environment."""
    files = {"g": IN_INSTALL, "u": IN_GLOBAL, "x": IN_INSTALL}
    place = environment(tmp_path, **files)
    given = {**variables, "PIP_CONFIG_FILE": str(tmp_path / EXTRA)}
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        env={"PATH": os.environ["PATH"], **given},
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    values = dict(line.split("=", 1) for line in listed.splitlines())
    words = ast.literal_eval(values["install.constraint"]).split()
    assert list(pip_settings.in_effect(place, given).words) == words == ["x.txt", "other-x.txt"]
    # The user's file is not read if PIP_CONFIG_FILE is set.
    assert "u.txt" not in values.get("global.constraint", "")


def test_variables_are_stronger_than_files(tmp_path: Path, variables: dict[str, str]) -> None:
    place = environment(tmp_path, s=IN_INSTALL)
    given = {**variables, "PIP_CONSTRAINT": "a.txt  b.txt"}
    assert pip_settings.in_effect(place, given) == Constraints(("a.txt", "b.txt"), "PIP_CONSTRAINT")
    no_files = {**variables, "PIP_CONFIG_FILE": os.devnull}
    assert pip_settings.in_effect(place, no_files) == Constraints((), "PIP_CONFIG_FILE")


@pytest.mark.parametrize(("files", "level"), LEVELS)
def test_a_value_in_the_environment_hides_what_was_in_effect_elsewhere(
    files: dict[str, str], level: str, tmp_path: Path, variables: dict[str, str]
) -> None:
    place = environment(tmp_path, **files)
    hidden = pip_settings.hidden_by(place, files.get("s", "").format("s.txt"), variables)
    expected = [] if level in ("", "s") else [f"{level}.txt", f"other-{level}.txt"]
    assert hidden == expected

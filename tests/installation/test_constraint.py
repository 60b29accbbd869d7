"""The constraint file, and the variables set for `as-torch -m pip` and `as-torch -m uv`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fastdist.core.version import TORCH_VERSION
from fastdist.installation import constraint
from fastdist.installation.environment import Environment
from tests.installation.places import make_place

SHIPPED = constraint.url_of(constraint.SHIPPED)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    place = make_place(tmp_path / "with space" / "v")
    monkeypatch.setattr(constraint, "this_environment", lambda: place)
    monkeypatch.setenv("HOME", place.prefix)
    return place


def test_the_shipped_file_has_the_version_that_torch_reports() -> None:
    lines = Path(constraint.SHIPPED).read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [f"torch=={TORCH_VERSION}"]


def test_the_file_holds_for_this_python_and_includes_what_it_hides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = constraint.text_with(["/a b/c.txt", "d.txt", "https://h/e.txt", "file:///f.txt"])
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f'torch=={TORCH_VERSION} ; python_version == "{version}"\n' in text
    assert [line[3:] for line in text.splitlines() if line.startswith("-c ")] == [
        *("file:///a%20b/c.txt", (tmp_path / "d.txt").as_uri(), "https://h/e.txt"),
        "file:///f.txt",
    ]
    assert "-c" not in constraint.text_with([])


@pytest.mark.parametrize(
    ("arguments", "module"),
    [
        ("-m pip install x", "pip"),
        ("-mpip install x", "pip"),
        ("-u -I -W ignore -X dev -Im pip", "pip"),
        ("-Wignore -Xdev --check-hash-based-pycs never -m uv pip install x", "uv"),
        ("train.py -m pip", None),
        ("-c text -m pip", None),
        ("-uc text -m pip", None),
        ("- -m pip", None),
        ("-u", None),
        ("-m", None),
        ("", None),
    ],
)
def test_the_module_is_the_one_that_python_runs(arguments: str, module: str | None) -> None:
    assert constraint._module_of(arguments.split()) == module


def test_programs_get_no_variables(place: Environment) -> None:
    assert constraint.variables_for(["train.py"], {}) == {}
    assert constraint.variables_for(["-m", "trains"], {"PIP_CONSTRAINT": "a"}) == {}


def test_the_constraints_that_are_there_hold_too(place: Environment) -> None:
    given = {"XDG_CONFIG_DIRS": place.prefix}
    pip, uv = ["-m", "pip"], ["-m", "uv"]
    assert constraint.variables_for(pip, given) == {"PIP_CONSTRAINT": SHIPPED}
    assert constraint.variables_for(uv, given) == {"UV_CONSTRAINT": SHIPPED}
    for words in ("a.txt b.txt", f"a.txt {SHIPPED}"):
        more = {**given, "PIP_CONSTRAINT": words, "UV_CONSTRAINT": words}
        expected = words if SHIPPED in words else f"{words} {SHIPPED}"
        assert constraint.variables_for(pip, more) == {"PIP_CONSTRAINT": expected}
        assert constraint.variables_for(uv, more) == {"UV_CONSTRAINT": expected}
    Path(place.pip_file).write_text("[global]\nconstraint = site.txt\n")
    assert constraint.variables_for(pip, given) == {"PIP_CONSTRAINT": f"site.txt {SHIPPED}"}


def test_where_torch_is_installed_its_constraint_is_the_one(place: Environment) -> None:
    path = constraint.file_of(place)
    Path(path).write_text("")
    url = constraint.url_of(path)
    assert "%20" in url and " " not in url
    Path(place.pip_file).write_text(f"[install]\nconstraint = {url}\n")
    given = {"XDG_CONFIG_DIRS": place.prefix}
    assert constraint.variables_for(["-m", "pip"], given) == {"PIP_CONSTRAINT": url}


def test_a_broken_configuration_is_left_for_pip_to_report(place: Environment) -> None:
    Path(place.pip_file).write_text("constraint = a\n")
    given = {"XDG_CONFIG_DIRS": place.prefix, "PATH": os.defpath}
    assert constraint.variables_for(["-m", "pip"], given) == {"PIP_CONSTRAINT": SHIPPED}

"""Unsuitable environments for an installed `torch` are rejected with the reason."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytest

import fastdist
from fastdist.as_torch import FOLDER
from fastdist.installation import environment
from fastdist.installation.environment import Environment, InstallError, require_suitable
from tests.installation.places import make_place

OWN = fastdist.__file__


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    monkeypatch.setattr(environment, "_found_by_plain_python", lambda: (OWN, None))
    return make_place(tmp_path / "v", "[list]\n")


def test_the_folders_are_those_of_this_python() -> None:
    place = environment.this_environment()
    assert place.site_packages == sysconfig.get_path("purelib")
    assert place.pip_file == os.path.join(sys.prefix, "pip.conf")


def test_a_python_of_the_operating_system_is_refused(
    place: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "EXTERNALLY-MANAGED").write_text("[externally-managed]\n")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    require_suitable(place)
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    with pytest.raises(InstallError, match=r"EXTERNALLY-MANAGED.*python3 -m venv"):
        require_suitable(place)


@pytest.mark.parametrize("name", ["lib/site-packages", "", "pip.conf"])
def test_what_cannot_be_written_is_named(
    place: Environment, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = os.path.normpath(os.path.join(place.prefix, name))
    monkeypatch.setattr(os, "access", lambda asked, mode: asked != path)
    with pytest.raises(InstallError) as raised:
        require_suitable(place)
    assert str(raised.value).startswith(f"{path} cannot be written by this user; make an env")


@pytest.mark.parametrize("found", [None, "/v/lib/site-packages/fastdist/__init__.py"])
def test_another_fastdist_is_refused(
    place: Environment, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "_found_by_plain_python", lambda: (found, None))
    with pytest.raises(InstallError) as raised:
        require_suitable(place)
    told = "finds none" if found is None else f"finds another one, {found}"
    assert told in str(raised.value) and "-m pip install -e" in str(raised.value)


def test_a_torch_elsewhere_on_the_path_is_refused(
    place: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for torch in ("/home/u/.local/lib/site-packages/torch/__init__.py", "/checkout/torch"):
        monkeypatch.setattr(environment, "_found_by_plain_python", lambda one=torch: (OWN, one))
        with pytest.raises(InstallError, match=f"imports another torch, from {torch}"):
            require_suitable(place)
    for folder in (place.site_packages, FOLDER):
        own = os.path.join(folder, "torch", "__init__.py")
        monkeypatch.setattr(environment, "_found_by_plain_python", lambda one=own: (OWN, one))
        require_suitable(place)


def test_a_python_that_does_not_start_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_PROBE", "raise SystemExit('no home')")
    with pytest.raises(InstallError, match="did not start: no home"):
        environment._found_by_plain_python()


def test_plain_python_is_asked_without_the_variables_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fastdist.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found, _ = environment._found_by_plain_python()
    assert found != str(tmp_path / "fastdist.py")

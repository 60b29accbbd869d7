"""At start a program reports changes to the installed `torch`; otherwise it prints nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fastdist.installation import constraint, distribution, state
from fastdist.installation.environment import Environment
from tests.installation.places import INFO, add_torch, make_place


@pytest.fixture
def place(tmp_path: Path) -> Environment:
    place = make_place(tmp_path / "v")
    with distribution.written(place.site_packages):
        Path(constraint.file_of(place)).write_text("")
    return place


def test_nothing_is_said_where_all_is_well(place: Environment, tmp_path: Path) -> None:
    assert state.note(place, ["", "/none", state.FOLDER]) is None
    other = make_place(tmp_path / "w")
    add_torch(other)
    # If fastdist's `torch` was never installed, the user has chosen PyTorch's torch.
    assert state.note(other, [other.site_packages]) is None


def test_a_torch_that_replaced_it_is_named(place: Environment) -> None:
    distribution.remove(place.site_packages)
    add_torch(place)
    told = state.note(place, [])
    assert told is not None
    assert told.startswith(f"torch 2.14.1 in {place.site_packages} replaced the torch that")
    assert "`pip uninstall torch` and `fastdist as-torch --install`" in told


def test_a_torch_elsewhere_on_the_path_is_named(place: Environment, tmp_path: Path) -> None:
    other = make_place(tmp_path / "user")
    add_torch(other)
    told = state.note(place, [other.site_packages, place.site_packages])
    assert told is not None and told.startswith(f"torch 2.14.1 in {other.site_packages} replaced")


def test_a_torch_that_python_does_not_import_is_not_named(
    place: Environment, tmp_path: Path
) -> None:
    other = make_place(tmp_path / "user")
    add_torch(other)
    assert state.note(place, [place.site_packages, other.site_packages]) is None


def test_a_torch_that_pip_removed_is_named(place: Environment) -> None:
    distribution.remove(place.site_packages)
    told = state.note(place, [])
    assert told is not None
    assert f"is no longer in {place.site_packages}, but pip still refuses any other" in told


def test_a_torch_of_another_fastdist_is_named(place: Environment) -> None:
    site = Path(place.site_packages)
    os.rename(site / INFO, site / "torch-2.12.0+fastdist.dist-info")
    told = state.note(place, [])
    assert told is not None and "says version 2.12.0+fastdist, and this fastdist is" in told

"""The files of the distribution `torch`, as tools read them, and its module."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastdist
from fastdist.core.version import TORCH_VERSION
from fastdist.installation import distribution
from fastdist.installation.environment import Environment
from tests.installation.places import INFO, add_torch, make_place

ROOT = str(Path(fastdist.__file__).parents[1])


@pytest.fixture
def place(tmp_path: Path) -> Environment:
    place = make_place(tmp_path / "v")
    with distribution.written(place.site_packages):
        pass
    return place


def test_metadata_is_what_packages_ask_for(place: Environment) -> None:
    (found,) = importlib.metadata.distributions(name="torch", path=[place.site_packages])
    assert found.version == TORCH_VERSION and found.metadata["Name"] == "torch"
    extras = found.metadata.get_all("Provides-Extra")
    assert extras == ["opt-einsum", "optree", "pyyaml"]
    assert all("extra ==" in line for line in found.requires or [])


def test_the_list_names_every_file_with_its_digest(place: Environment) -> None:
    site = Path(place.site_packages)
    rows = list(csv.reader((site / INFO / "RECORD").read_text().splitlines()))
    there = {f"{INFO}/{path.name}" for path in (site / INFO).iterdir()} | {"torch/__init__.py"}
    assert {name for name, _, _ in rows} == there
    for name, digest, size in rows:
        data = (site / name).read_bytes()
        found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        assert name.endswith("/RECORD") or (digest, size) == (f"sha256={found}", str(len(data)))


def test_distributions_are_found_under_any_name_of_their_folder(place: Environment) -> None:
    site = Path(place.site_packages)
    for name in (
        "torch-2.5.1-py3.11.egg-info",
        "torchvision-0.28.0.dist-info",
        "torch_x.dist-info",
    ):
        (site / name).mkdir()
    found = {(one.version, one.is_ours) for one in distribution.find(place.site_packages)}
    assert found == {(str(TORCH_VERSION), True), ("2.5.1", False)}


def test_a_module_of_another_torch_is_not_removed(place: Environment) -> None:
    add_torch(place)
    assert distribution.remove(place.site_packages) == []
    assert (Path(place.site_packages) / "torch" / "__init__.py").exists()
    assert [one.version for one in distribution.find(place.site_packages)] == ["2.14.1"]


def run(
    place: Environment, program: str, *, has_fastdist: bool
) -> subprocess.CompletedProcess[str]:
    """Run a program that imports the installed `torch` before any other `torch`."""
    more = [ROOT, str(Path(np.__file__).parents[1])] if has_fastdist else []
    path = os.pathsep.join([place.site_packages, *more])
    return subprocess.run(
        [sys.executable, "-S", "-P", "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_module_is_fastdist(place: Environment) -> None:
    program = """
import pathlib, sys, warnings
warnings.simplefilter("error")
import torch, torch.nn, torch.utils.data, fastdist
assert torch.nn is fastdist.nn and torch.Tensor is fastdist.Tensor
assert torch.__version__ == "2.13.0+fastdist"
assert pathlib.Path(torch.__file__).is_relative_to(sys.path[0])
fastdist.install_as_torch()
import importlib
assert importlib.reload(torch) is torch and torch.utils.data is fastdist.utils.data
print(torch.ones(2).tolist())
"""
    done = run(place, program, has_fastdist=True)
    assert (done.returncode, done.stdout) == (0, "[1.0, 1.0]\n"), done.stderr


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (f"{INFO}/METADATA", "has no metadata any more"),
        ("torch/__init__.py", "says version 2.12.0+fastdist, and this fastdist is 2.13.0+fastdist"),
    ],
)
def test_the_module_warns_where_it_was_replaced_in_part(
    place: Environment, change: str, words: str
) -> None:
    path = Path(place.site_packages) / change
    text = path.read_text().replace(f'"{TORCH_VERSION}"', '"2.12.0+fastdist"')
    path.unlink() if change.endswith("METADATA") else path.write_text(text)
    done = run(place, "import torch; print(torch.ones(1).tolist())", has_fastdist=True)
    assert done.stdout == "[1.0]\n" and words in done.stderr
    assert "run `fastdist as-torch --install` again" in done.stderr


@pytest.mark.parametrize("other", [False, True])
def test_without_fastdist_the_import_names_the_remedy(place: Environment, other: bool) -> None:
    if other:
        # Simulate another project with the name fastdist, which the package index has.
        (Path(place.site_packages) / "fastdist.py").write_text("")
    done = run(place, "import torch", has_fastdist=False)
    assert done.returncode == 1
    assert "ModuleNotFoundError: `torch` in this environment is fastdist, and" in done.stderr
    assert "pip uninstall torch" in done.stderr

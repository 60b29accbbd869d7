"""pip accepts the installed `torch` in a real environment, without a package index, and keeps it.

The wheels are made here: a newer torch, two versions of torchvision that need different torch
versions, and a package that needs torchvision and an extra of torch.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest

import fastdist
from fastdist.core.version import TORCH_VERSION
from fastdist.installation import constraint, distribution, install, state
from fastdist.installation.environment import Environment, InstallError
from tests.installation.places import files_in

ROOT = Path(fastdist.__file__).parents[1]
# The packages that `import fastdist` needs, and pip. The real torch is not among them.
LINKED = ("numpy", "numpy.libs", "ml_dtypes", "pip")


def make_wheel(folder: Path, name: str, version: str, *needs: str) -> None:
    """Write a wheel of one empty module."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": f"__version__ = {version!r}\n",
        f"{info}/METADATA": "".join(
            [
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
                *(f"Requires-Dist: {need}\n" for need in needs),
            ]
        ),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()
        rows.append(f"{path},sha256={digest.rstrip('=')},{len(text)}\n")
    files[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    make_wheel(folder, "torch", "2.14.1")
    make_wheel(folder, "torchvision", "0.28.0", "torch==2.13.0")
    make_wheel(folder, "torchvision", "0.29.1", "torch==2.14.1")
    make_wheel(folder, "opt_einsum", "3.4.0")
    make_wheel(folder, "timm", "1.0.31", "torch", "torchvision")
    make_wheel(folder, "sees", "1.0", "torchvision", "torch[opt-einsum]>=2.0")
    return folder


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment in which plain Python finds this fastdist and pip."""
    folder = tmp_path_factory.mktemp("with space") / "v"
    venv.EnvBuilder(symlinks=True).create(folder)
    libs = folder / "libs"
    libs.mkdir()
    numpys = Path(str(importlib.util.find_spec("numpy").origin)).parents[1]  # type: ignore[union-attr]
    for name in LINKED:
        spec = importlib.util.find_spec(name)
        origin = Path(spec.origin).parent if spec and spec.origin else numpys / name
        if origin.exists():
            (libs / name).symlink_to(origin)
    for name in ("fastdist", "kernels"):
        (libs / name).symlink_to(ROOT / name)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "libs.pth").write_text(f"{libs}\n")
    return folder


class Place(Environment):
    """An environment with its Python."""

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the environment's Python; pip reads only the configuration of this environment."""
        home = {"HOME": self.prefix, "XDG_CONFIG_DIRS": self.prefix, "PATH": os.defpath}
        return subprocess.run(
            [os.path.join(self.prefix, "bin", "python"), *arguments],
            cwd=self.prefix, env={**home, **variables},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def pip(self, *arguments: str, **variables: str) -> str:
        """Run pip and return its output."""
        done = self.run("-m", "pip", *arguments, PIP_NO_INDEX="1", **variables)
        return done.stdout + done.stderr

    def versions(self) -> dict[str, str]:
        """Return the version of every distribution by its name."""
        names = [path.name for path in Path(self.site_packages).glob("*.dist-info")]
        return dict(name.removesuffix(".dist-info").split("-") for name in names)


@pytest.fixture
def bare(template: Path, tmp_path: Path) -> Place:
    folder = tmp_path / "with space" / "v"
    shutil.copytree(template, folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    return Place(str(site), str(folder))


@pytest.fixture
def place(bare: Place) -> Place:
    install._install(bare, {"XDG_CONFIG_DIRS": bare.prefix})
    return bare


@pytest.mark.one_in(3)
def test_the_command_makes_it_the_torch_of_plain_python(bare: Place) -> None:
    before = files_in(bare.prefix)
    done = bare.run("-m", "fastdist", "as-torch", "--install")
    assert done.returncode == 0, done.stderr
    program = "import torch, torch.nn, fastdist; print(torch.nn is fastdist.nn, torch.__version__)"
    done = bare.run("-c", program)
    assert (done.stdout, done.stderr) == (f"True {TORCH_VERSION}\n", "")
    done = bare.run("-m", "fastdist", "as-torch", "--uninstall")
    assert done.stdout.startswith("removed torch from") and files_in(bare.prefix) == before


@pytest.mark.one_in(3)
def test_the_page_shows_what_happens(bare: Place, wheels: Path) -> None:
    """Run the session of docs/packages.md, with a local package in place of that on the index."""
    text = (ROOT / "docs" / "packages.md").read_text()
    session = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^\$ \.venv/bin/(.*)\n((?:[^$].*\n)*)", "".join(session), re.MULTILINE)
    assert [command.split()[0] for command, _ in commands] == ["fastdist", "pip", "pip", "python"]
    for command, shown in commands:
        name, *words = shlex.split(command)
        start = [] if name == "python" else ["-m", name]
        done = bare.run(*start, *words, PIP_NO_INDEX="1", PIP_FIND_LINKS=wheels.as_uri())
        assert done.returncode == 0 and (not shown or done.stdout == shown), done
    assert bare.versions()["torchvision"] == "0.28.0"


@pytest.mark.one_in(3)
def test_pip_takes_the_torchvision_that_fits(place: Place, wheels: Path) -> None:
    told = place.pip("install", "--find-links", str(wheels), "sees")
    versions = {"torch": str(TORCH_VERSION), "torchvision": "0.28.0", "sees": "1.0"}
    assert place.versions() == {**versions, "opt_einsum": "3.4.0"}, told
    assert "No broken requirements found" in place.pip("check")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (("-U", "torch"), f"already satisfied: torch in ./lib/python.../({TORCH_VERSION})"),
        (("torch==2.14.1",), f"(constraint) torch=={TORCH_VERSION}"),
        (("--force-reinstall", "torch"), f"(constraint) torch=={TORCH_VERSION}"),
    ],
)
def test_pip_does_not_replace_it(
    place: Place, wheels: Path, wanted: tuple[str, ...], words: str
) -> None:
    before = files_in(place.prefix)
    told = place.pip("install", "--find-links", str(wheels), *wanted)
    start, _, end = words.partition("./lib/python.../")
    assert start in told and end in told
    assert files_in(place.prefix) == before


@pytest.mark.one_in(3)
def test_pip_removes_it_whole(place: Place, bare: Place) -> None:
    place.run("-c", "import torch")
    assert "Successfully uninstalled" in place.pip("uninstall", "-y", "torch")
    left = [name for name in os.listdir(place.site_packages) if "torch" in name]
    assert left == [constraint.FILE_NAME]
    told = state.note(place, [])
    assert told is not None and "is no longer in" in told


@pytest.mark.one_in(3)
def test_where_a_variable_hides_the_constraint_the_replacement_is_reported(
    place: Place, wheels: Path
) -> None:
    Path(place.prefix, "none.txt").write_text("")
    place.pip("install", "--find-links", str(wheels), "-U", "torch", PIP_CONSTRAINT="none.txt")
    assert place.versions()["torch"] == "2.14.1"
    (Path(place.prefix) / "p.py").write_text("import torch; print(torch.__version__)")
    done = place.run("-m", "fastdist", "as-torch", "p.py")
    assert done.stdout == f"{TORCH_VERSION}\n"
    assert done.stderr.startswith(f"fastdist as-torch: torch 2.14.1 in {place.site_packages} repl")
    with pytest.raises(InstallError, match=r"torch 2\.14\.1 is installed in"):
        distribution.require_replaceable(place.site_packages)


@pytest.mark.one_in(3)
def test_pip_under_as_torch_has_the_constraint_without_an_installation(
    bare: Place, wheels: Path
) -> None:
    words = ("as-torch", "-m", "pip", "install", "--no-index", "--find-links", str(wheels), "sees")
    Path(bare.prefix, "c.txt").write_text("sees<1\n")
    done = bare.run("-m", "fastdist", *words, PIP_CONSTRAINT="c.txt")
    assert done.returncode == 1 and "(constraint) sees<1" in done.stdout
    done = bare.run("-m", "fastdist", *words)
    assert done.returncode == 0, done.stderr
    versions = {"torchvision": "0.28.0", "sees": "1.0", "opt_einsum": "3.4.0"}
    assert bare.versions() == versions

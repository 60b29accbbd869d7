"""The wheel and the sdist contain the right files; the import is fast and prints nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

import pytest

import fastdist

ROOT = Path(__file__).resolve().parents[2]
NAME = "spangrad"  # the name of the distribution; the package is fastdist
TIMEOUT_S = 100


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stderr}"
    return done.stdout


def files_of_the_tree(*folders: str) -> set[str]:
    """Return the files in these folders, or in all, that git tracks or would add."""
    # The user who runs the tests may not own the clone. By default git would refuse to read it.
    git = ["git", "-c", "safe.directory=*"]
    listing = run(*git, "ls-files", "--cached", "--others", "--exclude-standard", *folders)
    return {name for name in listing.splitlines() if (ROOT / name).is_file()}


def package_of(name: str) -> str:
    folder = Path(name).parent.as_posix()
    return re.sub(r"^kernels", "fastdist.kernels", folder).replace("/", ".")


def files_of_the_package() -> set[str]:
    return files_of_the_tree("fastdist", "kernels")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist from git's files only, so that it contains no old build output."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("sdist")
    for name in files_of_the_tree():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).symlink_to(ROOT / name)  # building the sdist copies the linked files
    return build("sdist", source, out)


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the sdist, like an installer that finds no wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    # Python 3.11.3 and older (Debian 12) cannot extract archives with a filter.
    checked: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, **checked)
    (source,) = folder.iterdir()
    return build("wheel", source, folder)


# The archives are temporary. Compressing 23 MB would take 3 s; logging each file would take 2 s
# more.
QUICKLY = "import zlib; real = zlib.compressobj; zlib.compressobj = lambda _, *rest: real(0, *rest)"
QUIET = "config_settings={'--global-option': '--quiet'}"


def build(kind: str, source: Path, out: Path) -> Path:
    program = f"import sys; from setuptools.build_meta import *; build_{kind}(sys.argv[1], {QUIET})"
    run(sys.executable, "-c", f"{QUICKLY}; {program}", out, cwd=source)
    (built,) = out.glob(f"{NAME}-*.whl" if kind == "wheel" else f"{NAME}-*.tar.gz")
    return built


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_the_packages_list_names_every_folder_with_code() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    there = {package_of(name) for name in files_of_the_package() if name.endswith(".py")}
    assert listed == sorted(there), f"packages in pyproject.toml must be these: {sorted(there)}"


def test_every_folder_with_code_has_an_init() -> None:
    names = files_of_the_package()
    folders = {Path(name).parent for name in names if name.endswith(".py")}
    assert {str(folder) for folder in folders if f"{folder}/__init__.py" not in names} == set()


@pytest.mark.one_in(3)
def test_the_wheel_holds_the_files_of_the_tree_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    held = {name for name in names if not re.match(rf"{NAME}-[^/]*\.dist-info/", name)}
    expected = {re.sub(r"^kernels/", "fastdist/kernels/", name) for name in files_of_the_package()}
    assert held == expected


def test_the_sdist_holds_the_files_of_the_tree_and_metadata(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {one.name.split("/", 1)[1] for one in archive.getmembers() if one.isfile()}
    written = {name for name in names if name.startswith(f"{NAME}.egg-info/")}
    assert names - written - {"PKG-INFO", "setup.cfg"} == files_of_the_tree()


@pytest.mark.one_in(3)
def test_the_distribution_has_a_name_and_the_version_of_the_package(unpacked: Path) -> None:
    (metadata,) = unpacked.glob("*.dist-info/METADATA")
    head = HeaderParser().parsestr(metadata.read_text())
    assert (head["Name"], head["Version"]) == (NAME, fastdist.__version__)
    assert head["Requires-Python"] == ">=3.11"
    urls = head.get_all("Project-URL", [])
    assert urls and all(f"https://pypi.org/project/{NAME}/" in url for url in urls)


def test_the_description_names_files_of_the_sdist_and_links_to_none(unpacked: Path) -> None:
    """On an index, a relative link or picture leads nowhere."""
    (metadata,) = unpacked.glob("*.dist-info/METADATA")
    head = HeaderParser().parsestr(metadata.read_text())
    description, readme = str(head.get_payload()), (ROOT / "README.md").read_text()
    assert head["Description-Content-Type"] == "text/markdown"
    link = re.compile(r"\]\(([^)]+)\)")
    assert [one for one in link.findall(description) if not one.startswith("https://")] == []
    linked = {one for one in link.findall(readme) if "://" not in one}
    assert len(linked) > 30 and linked <= files_of_the_tree()
    assert [one for one in linked if f"`{one}`" not in description] == []
    assert description.startswith(readme.partition("[")[0])


def test_the_wheel_asks_for_what_it_cannot_do_without_alone(unpacked: Path) -> None:
    (metadata,) = unpacked.glob("*.dist-info/METADATA")
    required = HeaderParser().parsestr(metadata.read_text()).get_all("Requires-Dist", [])
    hard = {re.split(r"[^\w-]", line)[0] for line in required if "extra ==" not in line}
    assert hard == {"ml_dtypes", "numpy", "numba", "pyzmq", "scipy"}


def test_the_wheel_brings_its_licence_and_command(unpacked: Path) -> None:
    (info,) = unpacked.glob("*.dist-info")
    assert (info / "licenses" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert "fastdist = fastdist.cli:main" in (info / "entry_points.txt").read_text()


def test_ci_installs_the_wheel_and_runs_the_demo_from_it() -> None:
    assert "    .ci/wheel && " in (ROOT / ".ci" / "run").read_text()
    assert os.access(ROOT / ".ci" / "wheel", os.X_OK)


@pytest.mark.one_in(3)
def test_an_unpacked_wheel_finds_its_own_kernels(unpacked: Path) -> None:
    found = run(
        *(sys.executable, "-c", "import fastdist.kernels; print(fastdist.kernels.__file__)"),
        cwd=unpacked,
    )
    assert Path(found.strip()) == unpacked / "fastdist" / "kernels" / "__init__.py"


@pytest.mark.one_in(3)
def test_an_uninstalled_checkout_finds_the_kernels_beside_it() -> None:
    found = run(sys.executable, "-c", "import fastdist.kernels; print(fastdist.kernels.__file__)")
    assert Path(found.strip()) == ROOT / "kernels" / "__init__.py"


@pytest.mark.one_in(3)
def test_import_is_quiet() -> None:
    """The import starts no compiler, GPU library, socket or thread, so the process may fork."""
    program = (
        "import sys, threading, fastdist\n"
        "heavy = {'numba', 'llvmlite', 'cupy', 'zmq', 'torch', 'multiprocessing', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)), [t.name for t in threading.enumerate()])"
    )
    assert run(sys.executable, "-c", program).strip() == "[] ['MainThread']"

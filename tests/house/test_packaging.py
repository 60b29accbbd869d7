"""The wheel and the sdist contain the right files; the import is fast and prints nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

import pytest

import fastdist
from tests.properties import Properties

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
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with links to git's files only: builds find no old build output there."""
    source = tmp_path_factory.mktemp("source")
    for name in files_of_the_tree():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).symlink_to(ROOT / name)  # building the sdist copies the linked files
    run(sys.executable, "setup.py", "--quiet", "egg_info", cwd=source)
    return source


@pytest.fixture(scope="module")
def metadata(source: Path) -> Message:
    """Return the metadata that setuptools writes before it builds, which both archives copy."""
    return parsed((source / f"{NAME}.egg-info" / "PKG-INFO").read_text())


parsed = HeaderParser().parsestr

# The archives are temporary. Compressing 23 MB would take 3 s; logging each file would take 2 s
# more.
QUICKLY = "import zlib; real = zlib.compressobj; zlib.compressobj = lambda _, *rest: real(0, *rest)"
QUIET = "config_settings={'--global-option': '--quiet'}"


def build(kind: str, source: Path, out: Path) -> Path:
    program = f"import sys; from setuptools.build_meta import *; build_{kind}(sys.argv[1], {QUIET})"
    run(sys.executable, "-c", f"{QUICKLY}; {program}", out, cwd=source)
    (built,) = out.glob(f"{NAME}-*.whl" if kind == "wheel" else f"{NAME}-*.tar.gz")
    return built


def unpacked(archive: tarfile.TarFile, folder: Path) -> Path:
    # Python 3.11.3 and older (Debian 12) cannot extract archives with a filter.
    checked: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    archive.extractall(folder, **checked)
    (source,) = folder.iterdir()
    return source


def test_the_packages_list_names_every_folder_with_code() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    there = {package_of(name) for name in files_of_the_package() if name.endswith(".py")}
    assert listed == sorted(there), f"packages in pyproject.toml must be these: {sorted(there)}"


def test_every_folder_with_code_has_an_init() -> None:
    names = files_of_the_package()
    folders = {Path(name).parent for name in names if name.endswith(".py")}
    assert {str(folder) for folder in folders if f"{folder}/__init__.py" not in names} == set()


def test_setuptools_lists_the_files_of_the_tree_for_the_sdist(source: Path) -> None:
    listed = (source / f"{NAME}.egg-info" / "SOURCES.txt").read_text().splitlines()
    assert {name for name in listed if ".egg-info/" not in name} == files_of_the_tree()


@pytest.mark.one_in(3)
def test_archives_hold_the_files_of_the_tree_and_metadata(
    source: Path, metadata: Message, tmp_path: Path, properties: Properties
) -> None:
    sdist = build("sdist", source, tmp_path)
    with tarfile.open(sdist) as archive:
        folder = unpacked(archive, tmp_path / "sdist")
    with properties("the sdist holds the files of the tree and metadata"):
        there = (path for path in folder.rglob("*") if path.is_file())
        names = {path.relative_to(folder).as_posix() for path in there}
        written = {name for name in names if name.startswith(f"{NAME}.egg-info/")}
        assert names - written - {"PKG-INFO", "setup.cfg"} == files_of_the_tree()
        assert parsed((folder / "PKG-INFO").read_text()).items() == metadata.items()

    # Build the wheel from the sdist, like an installer that finds no wheel.
    wheel, holds = build("wheel", folder, tmp_path), tmp_path / "wheel"
    with zipfile.ZipFile(wheel) as archive:
        names = {*archive.namelist()}
        archive.extractall(holds)
    with properties("the wheel holds the files of the tree and no other"):
        held = {name for name in names if not re.match(rf"{NAME}-[^/]*\.dist-info/", name)}
        package = files_of_the_package()
        assert held == {re.sub(r"^kernels/", "fastdist/kernels/", name) for name in package}
    with properties("the wheel brings its metadata, licence and command"):
        (info,) = holds.glob("*.dist-info")
        brought = parsed((info / "METADATA").read_text())
        assert brought.items() == metadata.items()
        assert brought.get_payload() == metadata.get_payload()
        assert (info / "licenses" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
        assert "fastdist = fastdist.cli:main" in (info / "entry_points.txt").read_text()
    with properties("an unpacked wheel finds its own kernels"):
        found = run(sys.executable, "-c", PRINT_KERNELS, cwd=holds)
        assert Path(found.strip()) == holds / "fastdist" / "kernels" / "__init__.py"


def test_the_distribution_has_a_name_and_the_version_of_the_package(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == (NAME, fastdist.__version__)
    assert metadata["Requires-Python"] == ">=3.11"
    urls = metadata.get_all("Project-URL", [])
    assert urls and all(f"https://pypi.org/project/{NAME}/" in url for url in urls)


def test_the_description_names_files_of_the_sdist_and_links_to_none(metadata: Message) -> None:
    """On an index, a relative link or picture leads nowhere."""
    description, readme = str(metadata.get_payload()), (ROOT / "README.md").read_text()
    assert metadata["Description-Content-Type"] == "text/markdown"
    link = re.compile(r"\]\(([^)]+)\)")
    assert [one for one in link.findall(description) if not one.startswith("https://")] == []
    linked = {one for one in link.findall(readme) if "://" not in one}
    assert len(linked) > 30 and linked <= files_of_the_tree()
    assert [one for one in linked if f"`{one}`" not in description] == []
    assert description.startswith(readme.partition("[")[0])


def test_the_distribution_asks_for_what_it_cannot_do_without_alone(metadata: Message) -> None:
    required = metadata.get_all("Requires-Dist", [])
    hard = {re.split(r"[^\w-]", line)[0] for line in required if "extra ==" not in line}
    assert hard == {"ml_dtypes", "numpy", "numba", "pyzmq", "scipy"}


def test_ci_installs_the_wheel_and_runs_the_demo_from_it() -> None:
    assert "    .ci/wheel && " in (ROOT / ".ci" / "run").read_text()
    assert os.access(ROOT / ".ci" / "wheel", os.X_OK)


PRINT_KERNELS = "import fastdist.kernels; print(fastdist.kernels.__file__)"


@pytest.mark.one_in(3)
def test_an_uninstalled_checkout_finds_the_kernels_beside_it() -> None:
    found = run(sys.executable, "-c", PRINT_KERNELS)
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

"""Programs that use packages of PyTorch's ecosystem give the results of PyTorch 2.13.

 pip install einops torchdiffeq ...; pytest -m packages tests/packages

`python -m tests.packages.expect` runs the programs with the installed torch, and stores their
results in expected.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
EXPECTED: dict[str, dict[str, list[float]]] = json.loads(
    (Path(__file__).parent / "expected.json").read_text()
)


@pytest.mark.parametrize(
    "package", [pytest.param(name, marks=pytest.mark.packages(name)) for name in EXPECTED]
)
def test_a_package_gives_the_numbers_of_pytorch(package: str) -> None:
    root = PROGRAMS.parents[2]
    # If a file were run as a script, its folder would be first on the path, and the file would hide
    # the package with its name.
    program = (
        "import runpy, sys; sys.path.append(sys.argv[1]); "
        "import fastdist; fastdist.install_as_torch(); runpy.run_path(sys.argv[2])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, PROGRAMS, PROGRAMS / f"{package}.py"],
        env={**os.environ, "PYTHONPATH": str(root), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    found = json.loads(line.removeprefix("RESULT "))
    assert found.keys() == EXPECTED[package].keys()
    for name, numbers in EXPECTED[package].items():
        assert found[name] == pytest.approx(numbers, rel=1e-4, abs=1e-6), name


def test_each_program_has_its_numbers() -> None:
    programs = {path.stem for path in PROGRAMS.glob("*.py")} - {"data"}
    assert programs == EXPECTED.keys()

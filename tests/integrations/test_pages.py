"""The programs of docs/ray.md and docs/dask.md print the output that the pages show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.ray_cluster import SETTINGS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "engine", [pytest.param(name, marks=pytest.mark.engines(name)) for name in ("ray", "dask")]
)
def test_a_program_prints_what_is_shown(engine: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / f"{engine}.md").read_text()
    program, expected = re.findall(r"^```(?:python|console)\n(.*?)^```$", page, re.M | re.S)
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        # Ignore clusters of other users on this machine, and clusters that have ended.
        env={**os.environ, **SETTINGS, "RAY_ADDRESS": "local", "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout.splitlines()
    assert [line for line in expected.splitlines() if line not in printed] == [], done.stderr

"""Environment variables of the user do not change the results of tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.surroundings import set_aside_what_is_not_the_tests

ROOT = Path(__file__).resolve().parents[2]
OF_A_JOB = {
    "FASTDIST_JOB_SECRET": "00" * 32,
    "FASTDIST_TRANSPORTS": "none",
    "FASTDIST_CACHE_DIR": "/nowhere",
    "RANK": "3",
    "WORLD_SIZE": "7",
    "MASTER_ADDR": "192.0.2.1",
    "SLURM_PROCID": "3",
    "OMPI_COMM_WORLD_RANK": "3",
    "OMP_NUM_THREADS": "1",
    "NUMBA_DISABLE_JIT": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONOPTIMIZE": "",
    "COLUMNS": "20",
}


def test_what_a_job_or_an_interpreter_was_told_is_set_aside() -> None:
    environment = {**OF_A_JOB, "PATH": "/bin", "HOME": "/root", "https_proxy": "http://proxy"}
    set_aside_what_is_not_the_tests(environment)
    assert environment == {"PATH": "/bin", "HOME": "/root", "https_proxy": "http://proxy"}


def test_the_tests_do_without_what_is_set_aside() -> None:
    kept = dict(os.environ)
    set_aside_what_is_not_the_tests(kept)
    set_by_the_tests = {"FASTDIST_CACHE_DIR", "XDG_RUNTIME_DIR"}
    # Importing fastdist sets these on CPUs whose core NumPy's BLAS would not recognize.
    set_by_fastdist = {"FASTDIST_OPENBLAS_CORETYPE", "OPENBLAS_CORETYPE"}
    # PyTorch sets this one if tests/interop has imported it.
    set_by_torch = {"TORCHINDUCTOR_CACHE_DIR"}
    assert set(os.environ) - set(kept) <= set_by_the_tests | set_by_fastdist | set_by_torch


# This test starts a job of two workers, which need no variables of the user.
OF_ONE_NODE = "tests/launch/test_secrets.py::test_a_job_of_one_node_runs_with_certificates"


@pytest.mark.one_in(3)
def test_jobs_of_the_tests_run_inside_a_job_with_a_secret() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "-q", "-x", OF_ONE_NODE],
        cwd=ROOT,
        env={**os.environ, **OF_A_JOB},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "1 passed" in done.stdout

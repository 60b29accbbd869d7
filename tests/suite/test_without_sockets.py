"""Without pyzmq, the tests and benchmarks of GPUs still run, and omitted tests are reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WITHOUT = "import sys; sys.path.insert(0, '.'); sys.modules['zmq'] = None; "
OF_SEVERAL_PROCESSES = (
    *("fastdist.distributed", ".distributed.checkpoint"),
    *("from .rpc import", "from .distributed.rpc import"),
)


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + program],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )


@pytest.mark.one_in(4)
def test_files_of_tests_that_need_sockets_are_left_out_and_counted() -> None:
    files = ["tests/graph/test_modes.py", "tests/distributed/sockets/test_options.py"]
    assert all((ROOT / file).exists() for file in files)
    words = [*files, "-n", "0", "-q", "--collect-only", "-p", "no:cacheprovider"]
    ended = run(f"import pytest; sys.exit(pytest.main({words}))")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "tests/graph/test_modes.py::" in ended.stdout
    assert "deselected 1, files of tests: pyzmq is not installed" in ended.stdout


@pytest.mark.one_in(4)
def test_another_error_of_a_file_is_still_one(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import no_such_package\n")
    words = [str(tmp_path / "test_broken.py"), "-n", "0", "-q", "-p", "tests.conftest"]
    ended = run(f"import pytest; sys.exit(pytest.main({words}))")
    assert ended.returncode == 2, ended.stdout
    assert "No module named 'no_such_package'" in ended.stdout


@pytest.mark.one_in(4)
def test_benchmarks_that_need_sockets_are_left_out_in_words() -> None:
    ended = run(
        "import runpy; sys.argv = ['bench', 'rpc']; runpy.run_module('bench', run_name='__main__')"
    )
    assert ended.returncode == 0, ended.stderr
    assert "rpc: left out, for it needs pyzmq (pip install pyzmq)" in ended.stdout


@pytest.mark.one_in(5)
@pytest.mark.parametrize("path", sorted((ROOT / "bench").rglob("*.py")), ids=lambda path: path.stem)
def test_a_benchmark_of_several_processes_says_that_it_needs_sockets(path: Path) -> None:
    text = path.read_text()
    if "\ndef run(" in text and path.stem not in ("__main__", "against"):
        needs = any(word in text for word in OF_SEVERAL_PROCESSES)
        assert ('NEEDS = ("zmq",' in text) is needs

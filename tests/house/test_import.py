"""`import fastdist` loads the modules that every program needs, and postpones the others.

The tests count modules, because times depend on the machine. `python -m bench ops` shows the time.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.launch import forked_programs

# Modules of Python's standard library that `import fastdist` loads in addition to NumPy's.
_EXPECTED = {"bisect", "copy", "gc", "heapq", "mmap", "threading", "traceback"}
_ROOMS = {
    *("as_torch", "core", "devices", "dispatch", "engine", "graph", "kernels"),
    *("instrumentation", "language", "interpreters", "random_numbers", "system"),
    *("namespace", "ops", "tensor"),
}


# Editable installs load modules at startup; these must not hide modules that the import loads.
_PATHS = [str(Path(np.__file__).parents[1]), str(Path(__file__).parents[2])]
_BARE = f"import sys; sys.path += {_PATHS}; "


_PRINTS_MODULES = """
import numpy
of_numpy = {*sys.modules}
import fastdist, fastdist.language.scalar as scalar
more = sys.modules.keys() - of_numpy
print(*[name for name in more if name in sys.stdlib_module_names])
print(*{name.split(".")[1] for name in more if "fastdist." in name})
print(len(scalar.Body._interned))
"""


def _printed(program: str, *options: str) -> list[set[str]]:
    """Run a program in a new interpreter, and return the words of each line that it prints."""
    done = subprocess.run(
        [sys.executable, *options, "-c", program], capture_output=True, text=True, check=True
    )
    return [{*line.split()} for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def loaded() -> list[set[str]]:
    """Return the modules of Python's library and the rooms that the import loads after NumPy's, and
    how many texts of ops it has read.
    """
    return _printed(_BARE + _PRINTS_MODULES, "-S")


def test_the_import_takes_little_of_python_s_library(loaded: list[set[str]]) -> None:
    assert {name for name in loaded[0] if not name.startswith("_")} <= _EXPECTED


def test_the_import_loads_the_rooms_of_the_ops_alone(loaded: list[set[str]]) -> None:
    assert {room for room in loaded[1] if not room.startswith("_")} == _ROOMS


def test_the_import_reads_no_text_of_an_op(loaded: list[set[str]]) -> None:
    assert loaded[2] == {"0"}


_PRINTS_MODULES_OF_JOBS = """
import sys, fastdist.distributed.rpc, fastdist.distributed.optim
from fastdist.optim.optimizer import Optimizer
few = ("refused", "refused_names", "alias_names", "moved_names", "float8", "for_subclasses",
    "few_sorted", "few_nonzero")
print(*[name for name in sys.modules if name.startswith("fastdist.") and name.endswith(few)])
import fastdist.examples.digits
print(*[n for n in ("multiprocessing", "subprocess", "difflib", "html") if n in sys.modules],
    *[n for n in sys.modules if n.startswith("fastdist.distributed.profiler")])
"""


@pytest.fixture(scope="module")
def loaded_by_jobs() -> list[set[str]]:
    """Return tables of names that a worker has loaded, and modules for other processes and pages
    that the job of the demo has loaded.
    """
    return _printed(_PRINTS_MODULES_OF_JOBS)


def test_a_job_that_loads_its_data_itself_holds_nothing_of_other_processes_and_pages(
    loaded_by_jobs: list[set[str]],
) -> None:
    assert loaded_by_jobs[1] == set()


def test_a_worker_loads_no_table_of_names_that_it_does_not_use(
    loaded_by_jobs: list[set[str]],
) -> None:
    # A copy checks for float8.
    assert loaded_by_jobs[0] == {"fastdist.kernels.cpu.float8"}


def test_a_worker_with_the_variables_of_a_launcher_reads_no_urls(port: int) -> None:
    program = f"""{_BARE}
import os, fastdist.distributed.rpc as rpc
os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="{port}")
rpc.init_rpc("a")
print(*[name for name in ("urllib.parse", "ipaddress", "base64") if name in sys.modules])
rpc.shutdown()
"""
    assert _printed(program, "-S") == [set()]


def test_threads_that_use_an_operator_first_find_it_made(tmp_path: Path) -> None:
    program = """
import threading, fastdist
unmade, start, found = fastdist.Tensor.__mul__, threading.Barrier(8), []

def work():
    x = fastdist.ones(3, requires_grad=True)
    start.wait(30)
    (x * x * 2).sum().backward()
    found.append(x.grad.tolist() == [4.0] * 3)

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(found), *set(found), fastdist.Tensor.__mul__ is not unmade)
"""
    # A forked program, whose template has used no operator.
    assert forked_programs.run(["-c", program], tmp_path).stdout == "8 True True\n"

"""`import fastdist` loads the modules that every program needs, and postpones the others.

The tests count modules, because times depend on the machine. `python -m bench ops` shows the time.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

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


def _printed(program: str, *options: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, *options, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_the_import_takes_little_of_python_s_library() -> None:
    loaded = "import {}; print(*[n for n in sys.modules if n in sys.stdlib_module_names])"
    numpy_s = _printed(_BARE + loaded.format("numpy"), "-S")
    more = _printed(_BARE + loaded.format("fastdist"), "-S") - numpy_s
    assert {name for name in more if not name.startswith("_")} <= _EXPECTED


def test_the_import_loads_the_rooms_of_the_ops_alone() -> None:
    rooms = _printed(
        "import fastdist, sys; print(*[n.split('.')[1] for n in sys.modules if 'fastdist.' in n])"
    )
    assert {room for room in rooms if not room.startswith("_")} == _ROOMS


def test_a_job_that_loads_its_data_itself_holds_nothing_of_other_processes_and_pages() -> None:
    program = """
import sys, fastdist.examples.digits
print(*[n for n in ("multiprocessing", "subprocess", "difflib", "html") if n in sys.modules])
print(*[n for n in sys.modules if n.startswith("fastdist.distributed.profiler")])
"""
    assert _printed(program) == set()


def test_a_worker_loads_no_table_of_names_that_it_does_not_use() -> None:
    program = """
import sys, fastdist.distributed.rpc, fastdist.distributed.optim
from fastdist.optim.optimizer import Optimizer
few = ("refused", "refused_names", "alias_names", "moved_names", "float8", "for_subclasses",
    "few_sorted", "few_nonzero")
print(*[name for name in sys.modules if name.startswith("fastdist.") and name.endswith(few)])
"""
    assert _printed(program) == {"fastdist.kernels.cpu.float8"}  # loaded when a copy checks for it


def test_a_worker_with_the_variables_of_a_launcher_reads_no_urls(port: int) -> None:
    program = f"""
import os, sys, fastdist.distributed.rpc as rpc
os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="{port}")
rpc.init_rpc("a")
print(*[name for name in ("urllib.parse", "ipaddress", "base64") if name in sys.modules])
rpc.shutdown()
"""
    assert _printed(program) == set()


def test_the_import_reads_no_text_of_an_op() -> None:
    program = "import fastdist.language.scalar as scalar; print(len(scalar.Body._interned))"
    assert _printed(program) == {"0"}


def test_threads_that_use_an_operator_first_find_it_made() -> None:
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
    assert _printed(program) == {"8", "True"}

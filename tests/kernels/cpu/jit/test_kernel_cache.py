"""Stored kernels are loaded without Numba, and one process per host compiles a missing kernel."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.kernels.cpu.processes import (
    ROOT,
    begin_fork,
    cache_with_runner,
    named_modules,
    run_forked,
    run_script,
)

# Kernels of each kind: a threaded pointwise loop; loops along rows, by dtype, by id and over blocks
# of memory; a loop of an optimizer; and a loop for a lookup.
PROGRAM = """
import sys
import fastdist as torch
x = torch.arange(1_200_000, dtype=torch.float32).reshape(1200, 1000) / 1e6
y = (x * x + x).softmax(-1).cumsum(0)
y = y + x[torch.arange(1200).flip(0)] + torch.nn.functional.max_pool2d(x[None, None], 3, 1, 1)[0, 0]
p = torch.ones(300, 300, requires_grad=True)
(p * x[:300, :300]).sum().backward()
torch.optim.Adam([p], lr=0.1).step()
print(y.sum().item(), p.sum().item(), torch.sin(x.half()).sum().item(), end=" ")
print(torch.randn(1 << 17, generator=torch.Generator().manual_seed(1)).sum().item())
print("numba" in sys.modules, "llvmlite" in sys.modules)
"""


@pytest.mark.one_in(3)
def test_a_process_that_finds_its_kernels_does_not_load_numba(tmp_path: Path) -> None:
    environment = {"FASTDIST_CACHE_DIR": str(cache_with_runner(tmp_path))}
    compiled, _ = run_forked(PROGRAM, **environment).splitlines()
    assert list((tmp_path / "numba").iterdir()) == []
    loaded = run_script(PROGRAM, **environment).splitlines()
    assert loaded == [compiled, "False False"]


ONE = """
import numpy as np
from fastdist.kernels.cpu.jit import kernel_cache, launch
load = kernel_cache.Recorder.load
def noted(recorder, code):
    print("compiled", end="")
    return load(recorder, code)
kernel_cache.Recorder.load = noted
print("", launch._runner() is not None)
"""


@pytest.mark.one_in(3)
def test_processes_that_want_a_kernel_at_once_compile_it_once(tmp_path: Path) -> None:
    with open(os.devnull, "rb") as nothing, tempfile.TemporaryFile() as out:
        streams = nothing.fileno(), out.fileno(), 2
        begun = [begin_fork(ONE, streams, FASTDIST_CACHE_DIR=str(tmp_path)) for _ in range(4)]
        assert [process.wait(100) for process in begun] == [0] * 4
        out.seek(0)
        told = out.read().decode()
    assert (told.count("compiled"), told.count("True")) == (1, 4)
    assert [path.suffix for path in (tmp_path / "objects").iterdir()] == [".object"]


WAITER = """
import sys
from fastdist.kernels.cpu.jit import launch, object_store
lock = object_store._lock_file
def announced(path):
    print("waits", flush=True)
    return lock(path)
object_store._lock_file = announced
print(launch._runner() is not None, "numba" in sys.modules)
"""


def test_a_process_that_waits_for_a_kernel_of_another_does_not_load_numba(tmp_path: Path) -> None:
    [kernel] = (cache_with_runner(tmp_path) / "objects").iterdir()
    aside = kernel.rename(tmp_path / "aside")
    with open(f"{kernel}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as a process does that compiles the kernel
        waiter = subprocess.Popen(
            [sys.executable, "-c", WAITER],
            cwd=ROOT,
            env={**os.environ, "FASTDIST_CACHE_DIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        with waiter:
            assert waiter.stdout is not None
            assert waiter.stdout.readline() == "waits\n"
            aside.rename(kernel)
            lock.close()
            assert waiter.communicate(timeout=100)[0] == "True False\n"


IMPORTER = """
import importlib, threading
from fastdist.kernels.cpu.jit import waiting
importer = threading.Thread(target=lambda: [importlib.import_module(name) for name in MODULES])
with waiting._State.lock:
    importer.start()
    importer.join(60)
print(importer.is_alive())
"""


def test_no_module_of_a_maker_compiles_during_its_import() -> None:
    modules = [f"fastdist.kernels.cpu.{name}" for name in named_modules()]
    assert run_forked(IMPORTER.replace("MODULES", repr(modules))) == "False"


@pytest.mark.one_in(3)
def test_where_numba_is_configured_it_makes_the_code_as_ever(tmp_path: Path) -> None:
    environment = {"FASTDIST_CACHE_DIR": str(tmp_path), "NUMBA_OPT": "2"}
    script = "import fastdist as torch; print((torch.ones(300, 300) * 2 + 1).sum().item())"
    assert run_forked(script, **environment) == "270000.0"
    assert not (tmp_path / "objects").exists() or not list((tmp_path / "objects").iterdir())
    assert list((tmp_path / "numba").glob("*.nbc"))


@pytest.mark.one_in(3)
def test_a_stored_kernel_that_cannot_be_loaded_is_compiled_again(tmp_path: Path) -> None:
    environment = {"FASTDIST_CACHE_DIR": str(tmp_path)}
    script = """
from fastdist.kernels.cpu.jit import launch, object_store
from fastdist.kernels.cpu.jit.object_store import Stored
read = object_store.read
def read_and_break(key):
    found = read(key)
    return found and Stored(found.code[:200], found.notes)
if BREAKS:
    object_store.read = read_and_break
print(launch._job_runner() is not None)
"""
    for breaks in ("0", "1", "0"):
        assert run_forked(script.replace("BREAKS", breaks), **environment) == "True"


REFUSED = """
import fastdist as torch
from fastdist.kernels.cpu.jit import machine_code
machine_code._python().mprotect = lambda *given: -1  # as systemd's MemoryDenyWriteExecute does
x = torch.ones(1000, 1000)
for _ in range(2):
    try:
        print((x * 2).sum(-1).sum().item())
    except RuntimeError as error:
        print(type(error).__name__, error)
"""


@pytest.mark.parametrize("has_kernels", [False, True])
def test_an_error_says_how_to_let_compiled_code_run(tmp_path: Path, has_kernels: bool) -> None:
    environment = {} if has_kernels else {"FASTDIST_CACHE_DIR": str(tmp_path)}
    found = run_forked(REFUSED, **environment).splitlines()
    assert found[0] == found[1]
    assert found[0].startswith("KernelError the kernel compile_loop of pointwise.numba_pointwise")
    assert "MemoryDenyWriteExecute=no" in found[0] and "FASTDIST_START=numpy" in found[0]
    assert run_forked(REFUSED, FASTDIST_START="numpy", **environment) == "2000000.0\n2000000.0"


PROFILED = """
import fastdist as torch
x = torch.ones(300, 300)
with torch.profiler.profile() as found:
    x + x
print(*sorted({row.key for row in found.key_averages() if "kernel" in row.key}))
"""


@pytest.mark.one_in(3)
def test_a_profile_has_rows_for_compiling_and_for_loading(tmp_path: Path) -> None:
    environment = {"FASTDIST_CACHE_DIR": str(cache_with_runner(tmp_path))}
    both, load = "fastdist::compile_kernel fastdist::load_kernel", "fastdist::load_kernel"
    assert [run_forked(PROFILED, **environment) for _ in range(2)] == [both, load]
